#pragma once

#include <string>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.pb.h"

// A template: a roofline model that answers every question sanely and none exactly. Replace what
// stands in roofline.cc by what you know of your chip.
namespace roofline {

namespace wire = meshwright::costmodel::v1;

// Lines of the breakdown, in this order; names of Meshwright's breakdown_seconds.
inline constexpr const char* kLines[] = {
    "matmul",          "memory_bound", "recompute",       "tensor_parallel", "context_parallel",
    "expert_parallel", "pipeline_p2p", "pipeline_bubble", "data_parallel",   "optimizer"};
inline constexpr int kLineCount = 10;

// One plan of a batch.
struct Candidate {
  int tensor = 1;
  bool has_sequence_parallel = false;
  int pipeline = 1;
  int chunks = 1;
  int data = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 1;
  int micro_batch = 1;
  int zero_stage = 0;
  int schedule = wire::SCHEDULE_1F1B;
  int recompute = wire::RECOMPUTE_GRANULARITY_NONE;
  double recomputed_share = 1;  // of the layers, under full recomputation
  double optimizer_offload = 0;
};

struct Estimate {
  wire::CandidateStatus status = wire::CANDIDATE_STATUS_OK;
  const char* reason = "";
  double seconds = 0;
  double peak_memory_bytes = 0;
  double lines[kLineCount] = {};
};

// What is measured of a chip to calibrate this model.
struct Test {
  const char* name;
  const char* what;
  const char* unit;
};
inline constexpr Test kTests[] = {
    {"matmul_bf16", "rate of a large bf16 matrix multiplication; fp16 where the chip has no bf16",
     "flops_per_second"},
    {"memory_copy", "bytes that a large copy reads and writes in a second", "bytes_per_second"}};

// Rates that were measured on a chip. Efficiencies are these over the nominal ones, which a
// question states.
struct Rates {
  double matmul = 0;
  double memory = 0;

  // What is wrong with the measurements; empty: nothing, and these are set. The chip's nominal
  // rates come with a question: rates above them are refused there, before the parameters are kept.
  std::string Fit(const wire::FitCalibrationRequest& request);
  [[nodiscard]] std::string Text() const;  // the parameters that are given back with a question
  bool Read(const std::string& text);
};

// A question, prepared for many candidates. Constant after construction: any number of threads.
class Roofline {
 public:
  // What the model does not know of the question; empty: nothing, it can be asked.
  static std::string WhyRefused(const wire::OpenContextRequest& request);

  explicit Roofline(const wire::OpenContextRequest& request);

  [[nodiscard]] Estimate Of(const Candidate& candidate) const;
  // The candidate's estimate is not below: its matrix multiplications and their pipeline bubble. 0:
  // not known.
  [[nodiscard]] double LeastSeconds(const Candidate& candidate) const;
  [[nodiscard]] int layers() const { return layers_; }

 private:
  [[nodiscard]] const char* WhyWrong(const Candidate& candidate) const;
  [[nodiscard]] double MicroBatches(const Candidate& candidate) const;
  [[nodiscard]] double MatmulSeconds(const Candidate& candidate) const;
  [[nodiscard]] double Bandwidth(int group) const;
  [[nodiscard]] double ParametersOfDevice(const Candidate& candidate) const;
  void AddCommunication(const Candidate& candidate, double micro_batches, Estimate& e) const;
  [[nodiscard]] double Memory(const Candidate& candidate, double micro_batches) const;

  int layers_ = 0;
  int devices_ = 0;
  int devices_per_node_ = 0;
  int batch_ = 0;
  double hidden_ = 0;
  double sequence_ = 0;
  double dense_parameters_ = 0;
  double expert_parameters_ = 0;
  double flops_ = 0;  // of a step, without recomputation
  double peak_ = 0;   // FLOP/s of a device
  double matmul_efficiency_ = 0;
  double memory_bandwidth_ = 0;
  double memory_capacity_ = 0;
  double inside_ = 0;   // bytes/s of a device, inside the node
  double outside_ = 0;  // and between nodes
  double exposed_gradients_ = 1;
};

// Candidate `index` of columns that are known to be whole.
class Columns {
 public:
  Columns(const wire::Candidates& candidates, int layers);
  [[nodiscard]] Candidate At(int index) const;

 private:
  const wire::Candidates& c_;
  std::vector<double> recomputed_share_;  // empty: all of it
};

// What is wrong with the columns; empty: nothing.
std::string WhyMalformed(const wire::Candidates& candidates);

}  // namespace roofline
