#include "estimator/learning/error_sources.h"

#include <cstdlib>

namespace meshwright {
namespace {

// The standard deviations of a source's relative error, and of that of an exchange across nodes:
// the likeliest for pairs of measured plans (scripts/fit_uncertainty.py,
// docs/cost_model/comparisons.md).
constexpr double kSourceSigma = 0.35;
constexpr double kAcrossNodesSigma = 0.6;

}  // namespace

double ErrorSigma(ErrorSource source) {
  const bool crosses =
      source == ErrorSource::kExchangeAcrossNodes || source == ErrorSource::kExpertsAcrossNodes;
  return crosses ? kAcrossNodesSigma : kSourceSigma;
}

ErrorSource SourceOf(TimeCause cause, bool crosses_nodes) {
  switch (cause) {
    case TimeCause::kMatmul:
    case TimeCause::kAttention:
    case TimeCause::kMemoryBound:
    case TimeCause::kVocabulary:
    case TimeCause::kRecompute:
    case TimeCause::kOptimizer:
      return ErrorSource::kKernels;
    case TimeCause::kTensorParallel:
    case TimeCause::kContextParallel:
    case TimeCause::kPipelineP2p:
    case TimeCause::kDataParallel:
      return crosses_nodes ? ErrorSource::kExchangeAcrossNodes : ErrorSource::kExchangeInNode;
    case TimeCause::kExpertParallel:
      return crosses_nodes ? ErrorSource::kExpertsAcrossNodes : ErrorSource::kExpertsInNode;
    case TimeCause::kPipelineBubble:
      return ErrorSource::kBubble;
    case TimeCause::kHost:
    case TimeCause::kFixed:
    case TimeCause::kActivationOffload:
      return ErrorSource::kHost;
  }
  std::abort();
}

}  // namespace meshwright
