#include "server/launchers/jobs/job_environment.h"

#include <cstddef>
#include <cstdlib>

namespace meshwright {

std::map<std::string, std::string> EnvironmentOf(const JobTemplate& job) {
  std::map<std::string, std::string> environment;
  for (const std::string& entry : job.environment) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const char* const own = std::getenv(name.c_str());
    if (equals != std::string::npos) {
      environment[name] = entry.substr(equals + 1);
    } else if (own != nullptr) {
      environment[name] = own;
    }
  }
  return environment;
}

}  // namespace meshwright
