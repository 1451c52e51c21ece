#pragma once

#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The measurements of a chip's microbenchmarks (docs/microbench.md): the input of the fits beside
// this file. Times are those of one operation and always above 0.

struct MeasuredGemm {
  Precision precision = Precision::kBf16;
  GemmPass pass = GemmPass::kForward;
  MatmulShape shape = {};
  bool accumulates_fp32 = false;  // adds to an fp32 output
  Seconds time = Seconds(0);
};

struct MeasuredAttention {
  Precision precision = Precision::kBf16;
  AttentionKernel kernel = AttentionKernel::kVendor;
  AttentionShape shape = {};
  bool is_backward = false;
  Seconds time = Seconds(0);
};

// A kernel that is bound by memory: norms, activations, copies.
struct MeasuredTraffic {
  Bytes bytes = {};  // read and written
  Seconds time = Seconds(0);
};

struct MeasuredCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 0;
  Bytes bytes = {};  // size of the message, as in Collective
  Seconds time = Seconds(0);
};

// Relative errors |modelled / measured - 1| at points that a fit had not seen.
struct FitError {
  double median_ratio = 0;
  double p90_ratio = 0;
  int point_count = 0;
  bool operator==(const FitError&) const = default;
};

}  // namespace meshwright
