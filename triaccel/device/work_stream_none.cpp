#include "triaccel/device/work_stream.h"

namespace triaccel {

struct WorkStream::Guard {};

WorkStream::WorkStream(c10::Device) {}
WorkStream::~WorkStream() = default;

}  // namespace triaccel
