#include "triaccel/device/onednn_watch.h"

#include <ATen/Context.h>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {

OneDnnWatch::OneDnnWatch()
    : was_on_(at::globalContext().userEnabledMkldnn()), refusals_(cpu_refusal_count()) {}

OneDnnWatch::~OneDnnWatch() {
  if (switched_off()) at::globalContext().setUserEnabledMkldnn(true);
}

void OneDnnWatch::check() const {
  if (switched_off()) throw OutOfMemory("CPU memory: too little for a matrix product by oneDNN");
}

// A network that switches it by itself is left alone.
bool OneDnnWatch::switched_off() const {
  return was_on_ && cpu_refusal_count() > refusals_ && !at::globalContext().userEnabledMkldnn();
}

}  // namespace triaccel
