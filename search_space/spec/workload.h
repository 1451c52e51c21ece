#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The communication that the framework hides behind computation.
struct Overlap {
  bool gradient_reduce = false;
  bool parameter_gather = false;
  bool tensor_parallel = false;
  bool pipeline_p2p = false;
  // Messages to experts and back: behind another micro-batch, and behind the shared experts.
  bool expert_parallel = false;
  bool shared_expert = false;
  bool operator==(const Overlap&) const = default;
};

struct OverlapRequest {
  std::optional<bool> gradient_reduce = {};
  std::optional<bool> parameter_gather = {};
  std::optional<bool> tensor_parallel = {};
  std::optional<bool> pipeline_p2p = {};
  std::optional<bool> expert_parallel = {};
  std::optional<bool> shared_expert = {};
  bool operator==(const OverlapRequest&) const = default;
};

// The way in which tokens come to their experts and back.
struct MoeTraining {
  MoeDispatcher dispatcher = MoeDispatcher::kAlltoall;
  DispatchDtype dispatch_dtype = DispatchDtype::kBf16;  // on the way to the experts
  double capacity_factor = 0;  // most tokens of an expert / mean; 0: none is dropped
  bool operator==(const MoeTraining&) const = default;
};

struct MoeTrainingRequest {
  std::optional<MoeDispatcher> dispatcher = {};
  std::optional<DispatchDtype> dispatch_dtype = {};
  std::optional<double> capacity_factor = {};
  bool operator==(const MoeTrainingRequest&) const = default;
};

// A fact of the framework's profile that has another value in this workload, such as
// "host_per_launch_seconds".
struct FrameworkFactRequest {
  std::string name = {};
  std::string value = {};
  bool operator==(const FrameworkFactRequest&) const = default;
};

// How the model is trained, as the user stated it. Absent fields get the framework profile's value
// (framework_profile.h), and the answer echoes each such default.
struct WorkloadRequest {
  std::optional<int> sequence_length = {};    // tokens
  std::optional<int> global_batch_size = {};  // sequences per step
  std::optional<Precision> precision = {};
  std::optional<AttentionKernel> attention_kernel = {};
  std::optional<KernelFusion> norm_kernel = {};
  std::optional<KernelFusion> cross_entropy_kernel = {};
  std::optional<Optimizer> optimizer = {};
  std::optional<GradientDtype> gradient_dtype = {};
  std::optional<Fp8Recipe> fp8_recipe = {};
  std::optional<bool> grouped_gemm = {};
  std::optional<double> dropout_ratio = {};
  OverlapRequest overlap = {};
  std::optional<std::string> framework_name = {};
  std::optional<std::string> framework_version = {};
  std::vector<FrameworkFactRequest> framework_facts = {};
  MoeTrainingRequest moe = {};
  bool operator==(const WorkloadRequest&) const = default;
};

// The same workload with every choice made.
struct Workload {
  int sequence_length = 0;
  int global_batch_size = 0;
  Precision precision = Precision::kBf16;
  AttentionKernel attention_kernel = AttentionKernel::kFlash2;
  KernelFusion norm_kernel = KernelFusion::kFused;
  KernelFusion cross_entropy_kernel = KernelFusion::kFused;
  Optimizer optimizer = Optimizer::kAdam;
  GradientDtype gradient_dtype = GradientDtype::kFp32;
  Fp8Recipe fp8_recipe = Fp8Recipe::kTensorwise;
  bool grouped_gemm = true;
  double dropout_ratio = 0.0;
  Overlap overlap = {};
  std::string framework_name = {};
  std::string framework_version = {};
  MoeTraining moe = {};
  bool operator==(const Workload&) const = default;
};

std::vector<FieldViolation> Validate(const WorkloadRequest& workload, std::string_view prefix);

}  // namespace meshwright
