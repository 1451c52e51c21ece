#pragma once

#include <string>

#include "cli/program/program.h"

namespace meshwright {

// What `study list` and `study show` do, for `history` too. Give the exit code.
int ListStudyPage(int page_size, const std::string& page_token, const GlobalFlags& flags);
int ShowStudy(const std::string& id, const GlobalFlags& flags);

}  // namespace meshwright
