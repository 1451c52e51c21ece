#include "server/version/version.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

constexpr std::string_view kCommit = MESHWRIGHT_COMMIT;  // empty if the build was not told

}  // namespace

std::string VersionText(std::string_view program) {
  return fmt::format(
      "{} {}\n"
      "commit: {}\n"
      "gRPC: {}\n"
      "protobuf: {}\n"
      "SQLite: {}\n"
      "compiler: {}\n"
      "dashboard: {}",
      program, MESHWRIGHT_VERSION, kCommit.empty() ? "not known" : kCommit, MESHWRIGHT_GRPC_VERSION,
      MESHWRIGHT_PROTOBUF_VERSION, MESHWRIGHT_SQLITE_VERSION, MESHWRIGHT_COMPILER,
      MESHWRIGHT_DASHBOARD);
}

}  // namespace meshwright
