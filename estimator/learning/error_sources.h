#pragma once

#include <bitset>
#include <cstddef>

#include "search_space/spec/estimate.h"

namespace meshwright {

// The causes of a step's time that are communication of a group that spans nodes.
using NodeCrossings = std::bitset<kTimeCauseCount>;

// The sources of a modelled step's error. The relative error in one of them is the same for all
// plans of a question, whose steps it has different shares of.
enum class ErrorSource {
  kKernels,  // computation, repeated or not
  kExchangeInNode,
  kExchangeAcrossNodes,
  kExpertsInNode,  // the exchange of experts
  kExpertsAcrossNodes,
  kBubble,
  kHost,  // launches, fixed work of a step, copies to the host
};
inline constexpr std::size_t kErrorSourceCount = 7;

ErrorSource SourceOf(TimeCause cause, bool crosses_nodes);

// Returns the standard deviation of the relative error of a source.
double ErrorSigma(ErrorSource source);

}  // namespace meshwright
