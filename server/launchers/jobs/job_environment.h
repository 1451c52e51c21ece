#pragma once

#include <map>
#include <string>

#include "server/tuner/question/job_template.h"

namespace meshwright {

// Returns the environment that a job's template states. An entry without a value takes this
// process's own, if it has one.
std::map<std::string, std::string> EnvironmentOf(const JobTemplate& job);

}  // namespace meshwright
