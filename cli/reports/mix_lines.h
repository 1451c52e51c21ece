#pragma once

#include <string>

#include "meshwright/v1/result.pb.h"

namespace meshwright {

// Shows people whether to mix the pools of a cluster and why, in at most `columns` columns; returns
// "" for an answer about one pool.
std::string MixLines(const v1::TuneResult& result, int columns);

}  // namespace meshwright
