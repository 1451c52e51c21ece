#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "estimator/fit/measured.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The contents of the file that workloads/microbench.py writes (format: docs/microbench/file.md).

struct MeasuredStream {
  MeasuredTraffic traffic = {};
  Bytes working_set = {};  // memory that its bytes are spread over
};

// A copy between the host's memory and the device's, in either direction.
struct MeasuredHostCopy {
  bool is_pinned = false;
  MeasuredTraffic traffic = {};
};

// GEMMs that run at the same time as an all-reduce.
struct MeasuredOverlap {
  Bytes bytes = {};           // of the all-reduce
  Seconds gemm = Seconds(0);  // on its own
  Seconds collective = Seconds(0);
  Seconds together = Seconds(0);
};

struct MeasuredElementwise {
  std::string operation = {};  // layernorm, gelu, adam, ...
  bool is_fused = false;       // one compiled kernel; otherwise PyTorch's own, which may be several
  MeasuredTraffic traffic = {};
};

struct MeasuredSustained {
  Precision precision = Precision::kBf16;
  MatmulShape shape = {};
  Seconds burst = Seconds(0);
  Seconds sustained = Seconds(0);
};

// A whole training step. The fits are compared with it but never fitted to it.
struct MeasuredStep {
  std::string case_json = {};  // a line of `evaluate --cases` without its cluster
  int ranks = 0;
  Seconds time = Seconds(0);
  std::optional<Bytes> peak_memory = {};
};

struct ItemState {
  std::string name = {};
  std::string status = {};  // measured, skipped, failed
  std::string reason = {};  // empty: measured
};

struct ChipMeasurements {
  std::string device = {};  // cpu, cuda, npu, ...
  std::string device_name = {};
  std::string backend = {};
  std::string torch = {};
  int ranks = 1;
  bool is_quick = false;                         // its points are too few and short to judge a chip
  std::optional<bool> has_fused_attention = {};  // absent: item device was not measured
  std::optional<Bytes> runtime_context = {};
  std::vector<ItemState> items = {};
  std::vector<MeasuredStream> streams = {};
  std::vector<MeasuredGemm> gemms = {};
  std::vector<MeasuredSustained> sustained = {};
  std::vector<MeasuredAttention> attention = {};
  std::vector<MeasuredElementwise> elementwise = {};
  std::vector<MeasuredCollective> collectives = {};
  std::vector<MeasuredTraffic> messages = {};  // between two ranks of a node
  std::vector<MeasuredHostCopy> host_copies = {};
  std::vector<MeasuredOverlap> overlaps = {};
  std::vector<MeasuredStep> steps = {};
};

// Parses the file. Returns INVALID_ARGUMENT with everything that is wrong. Items that no figure is
// fitted to are listed by their state only. Rows of attention whose heads share keys are left out,
// because they measure the copies as well, and so are GEMMs that add to an fp32 buffer, because
// they measure the addition as a kernel of its own.
absl::StatusOr<ChipMeasurements> ParseMeasurements(std::string_view text);

}  // namespace meshwright
