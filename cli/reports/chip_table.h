#pragma once

#include <string>

#include "meshwright/v1/catalog.pb.h"

namespace meshwright {

// Show the catalogue to people. Pure functions.
std::string ChipTable(const v1::ListChipsResponse& chips);
std::string ChipReport(const v1::Chip& chip);
std::string ServerTable(const v1::GetServerInfoResponse& server);

}  // namespace meshwright
