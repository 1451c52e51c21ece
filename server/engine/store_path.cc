#include "server/engine/store_path.h"

#include <cstdlib>

namespace meshwright {
namespace {

std::string EnvironmentOr(const char* name, const std::string& fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

}  // namespace

// XDG Base Directory Specification 0.8: state that is kept between restarts.
std::string DefaultStorePath() {
  const std::string home = EnvironmentOr("HOME", ".");
  return EnvironmentOr("XDG_STATE_HOME", home + "/.local/state") + "/meshwright/history.db";
}

}  // namespace meshwright
