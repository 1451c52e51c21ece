#pragma once

#include <string>

#include "cli/program/program.h"

namespace meshwright {

// Run `study list` and `study show`; `history` uses them too. Both return the exit code.
int ListStudyPage(int page_size, const std::string& page_token, const GlobalFlags& flags);
int ShowStoredStudy(const std::string& id, const GlobalFlags& flags);

}  // namespace meshwright
