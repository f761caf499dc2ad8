"""The layers of a model, as the control loop sees them."""
from __future__ import annotations

import torch

_KINDS = ((torch.nn.modules.conv._ConvNd, "convolution"), (torch.nn.Embedding, "embedding"))


def _kind_of(module: torch.nn.Module) -> str:
    return next((kind for base, kind in _KINDS if isinstance(module, base)), "linear")


class Layers:
    """The trainable parameters of a model, in layers: each matrix or kernel starts one, and what follows belongs to it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters: list[tuple[str, torch.Tensor, int]] = []
        self.layers: list[tuple[str, str, list[str], torch.Tensor, bool]] = []  # …, its weight, whether batch norm follows
        early: list[tuple[str, torch.Tensor]] = []  # before the first layer
        seen: set[int] = set()
        for module_name, module in model.named_modules():
            if self.layers and isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                self.layers[-1] = (*self.layers[-1][:4], True)
            for own_name, parameter in module.named_parameters(recurse=False):
                if id(parameter) in seen:
                    continue
                seen.add(id(parameter))
                name = f"{module_name}.{own_name}" if module_name else own_name
                if parameter.dim() >= 2 and parameter.dtype == torch.float32:
                    name_of_layer = name if any(module_name == layer[0] for layer in self.layers) else module_name or own_name
                    self.layers.append((name_of_layer, _kind_of(module), [], parameter, False))
                if self.layers:
                    self._add(name, parameter)
                else:
                    early.append((name, parameter))
        if not self.layers and early:  # vectors alone
            self.layers.append(("all", "linear", [], early[0][1], False))
        for name, parameter in early:
            self.parameters.append((name, parameter, 0))
            self.layers[0][2].append(name)

    def measured(self) -> tuple[list[tuple[str, torch.Tensor, int]], list[torch.Tensor]]:
        """Those that are trained and measured, and all others: frozen as yet, or of another type."""
        if not any(parameter.requires_grad for _, parameter, _ in self.parameters):
            raise ValueError("the model has no parameters that require gradients")
        measured = [entry for entry in self.parameters if entry[1].requires_grad and entry[1].dtype == torch.float32]
        if not measured:
            raise ValueError("no parameter that requires gradients is of type float32; keep the weights in float32: layers "
                             "compute in 16 bits as their plan says")
        known = {id(parameter) for _, parameter, _ in measured}
        return measured, [parameter for _, parameter, _ in self.parameters if id(parameter) not in known]

    def _add(self, name: str, parameter: torch.Tensor) -> None:
        self.layers[-1][2].append(name)
        self.parameters.append((name, parameter, len(self.layers) - 1))
