#include "triaccel/layers/scope/common_type.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

namespace triaccel {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
using Type = std::optional<at::ScalarType>;

Type type_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return {};
  return tensor.scalar_type();
}

Type widest_of(Arguments arguments, Type narrowest) {
  Type widest = narrowest;
  const auto widen = [&](const at::Tensor& tensor) {
    const Type type = type_of(tensor);
    if (type) widest = widest ? c10::promoteTypes(*widest, *type) : type;
  };
  for (const c10::IValue& value : arguments) {
    if (value.isTensor()) widen(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) widen(tensor);
  }
  return widest;
}

void convert(c10::IValue& value, at::ScalarType type) {
  const auto converted = [&](const at::Tensor& tensor) {
    return type_of(tensor) ? tensor.to(type) : tensor;
  };
  if (value.isTensor()) {
    value = converted(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) tensor = converted(tensor);
    value = std::move(tensors);
  }
}

}  // namespace

// Libraries of operators are filled before main(), when other constants may not be there yet.
const std::vector<const char*>& operators_in(CommonType type) {
  static const std::vector<const char*> in_widest = {"bmm",
                                                     "baddbmm",
                                                     "addbmm",
                                                     "mv",
                                                     "addmv",
                                                     "bilinear",
                                                     "_prelu_kernel",
                                                     "prelu",
                                                     "lstm.input",
                                                     "gru.input",
                                                     "rnn_tanh.input",
                                                     "rnn_relu.input",
                                                     "lstm_cell",
                                                     "gru_cell",
                                                     "_transformer_encoder_layer_fwd",
                                                     "_native_multi_head_attention",
                                                     "grid_sampler",
                                                     "embedding_bag",
                                                     "embedding_bag.padding_idx",
                                                     "scatter_add",
                                                     "scatter.src",
                                                     "scatter_reduce.two",
                                                     "masked_scatter",
                                                     "index_add",
                                                     "index_copy",
                                                     "index_put",
                                                     "index_reduce",
                                                     "put",
                                                     "dot",
                                                     "vdot",
                                                     "linalg_cross",
                                                     "linalg_solve",
                                                     "lerp.Scalar",
                                                     "lerp.Tensor",
                                                     "complex",
                                                     "polar",
                                                     "heaviside"};
  static const std::vector<const char*> of_parts = {"inner", "tensordot", "linalg_multi_dot"};
  static const std::vector<const char*> in_first = {
      "scatter_add_",    "scatter_.src",  "scatter_reduce_.two",
      "masked_scatter_", "index_add_",    "index_copy_",
      "index_put_",      "index_reduce_", "put_",
      "lerp_.Scalar",    "lerp_.Tensor",  "addmm_",
      "addmv_",          "addbmm_",       "baddbmm_"};
  static const std::vector<const char*> in_fp32 = {"log_softmax.int",
                                                   "logsumexp",
                                                   "cross_entropy_loss",
                                                   "nll_loss",
                                                   "nll_loss_nd",
                                                   "nll_loss2d",
                                                   "binary_cross_entropy",
                                                   "binary_cross_entropy_with_logits",
                                                   "kl_div",
                                                   "mse_loss",
                                                   "l1_loss",
                                                   "smooth_l1_loss",
                                                   "huber_loss",
                                                   "poisson_nll_loss",
                                                   "soft_margin_loss",
                                                   "multi_margin_loss",
                                                   "multilabel_margin_loss",
                                                   "hinge_embedding_loss",
                                                   "margin_ranking_loss",
                                                   "cosine_embedding_loss",
                                                   "triplet_margin_loss",
                                                   "ctc_loss.Tensor",
                                                   "ctc_loss.IntList",
                                                   "cosine_similarity",
                                                   "cdist",
                                                   "pdist",
                                                   "dist",
                                                   "fft_fft",
                                                   "fft_ifft",
                                                   "fft_fft2",
                                                   "fft_ifft2",
                                                   "fft_fftn",
                                                   "fft_ifftn",
                                                   "fft_rfft",
                                                   "fft_irfft",
                                                   "fft_rfft2",
                                                   "fft_irfft2",
                                                   "fft_rfftn",
                                                   "fft_irfftn",
                                                   "fft_hfft",
                                                   "fft_ihfft",
                                                   "stft",
                                                   "stft.center",
                                                   "istft",
                                                   "linalg_svd",
                                                   "linalg_svdvals",
                                                   "linalg_eigh",
                                                   "linalg_eigvalsh",
                                                   "linalg_qr",
                                                   "linalg_cholesky",
                                                   "linalg_inv",
                                                   "linalg_pinv",
                                                   "linalg_det",
                                                   "linalg_slogdet",
                                                   "svd",
                                                   "logdet",
                                                   "quantile",
                                                   "quantile.scalar",
                                                   "nanquantile",
                                                   "nanquantile.scalar"};
  switch (type) {
    case CommonType::Widest:
      return in_widest;
    case CommonType::WidestOfParts:
      return of_parts;
    case CommonType::First:
      return in_first;
    case CommonType::Fp32:
      break;
  }
  return in_fp32;
}

void bring_together(const c10::OperatorHandle& op, torch::jit::Stack& stack, CommonType type) {
  const std::size_t first = stack.size() - op.schema().arguments().size();
  const Arguments arguments = Arguments(stack).slice(first);
  const bool keeps_first = type == CommonType::First;
  const Type narrowest = type == CommonType::Fp32 ? Type(at::kFloat) : Type();
  const Type wanted =
      keeps_first ? type_of(arguments[0].toTensor()) : widest_of(arguments, narrowest);
  if (!wanted) return;
  for (std::size_t i = first + (keeps_first ? 1 : 0); i < stack.size(); ++i)
    convert(stack[i], *wanted);
}

}  // namespace triaccel
