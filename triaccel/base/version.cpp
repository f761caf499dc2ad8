#include "triaccel/base/version.h"

#include "triaccel_build_commit.h"  // written by cmake/BuildCommit.cmake at every build

namespace triaccel {

std::string_view version() { return TRIACCEL_VERSION; }

std::string_view build_commit() { return TRIACCEL_BUILD_COMMIT; }

}  // namespace triaccel
