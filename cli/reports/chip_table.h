#pragma once

#include <string>

#include "meshwright/v1/catalog.pb.h"

namespace meshwright {

// Show the catalogue to people, in lines of at most `columns`. Pure functions.
std::string ChipTable(const v1::ListChipsResponse& chips, int columns);
std::string ChipReport(const v1::Chip& chip, int columns);
std::string ServerTable(const v1::GetServerInfoResponse& server, int columns);
std::string CallerTable(const v1::ListCallersResponse& callers, int columns);

}  // namespace meshwright
