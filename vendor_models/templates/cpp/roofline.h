#pragma once

#include <string>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.pb.h"

// A template: a roofline model whose answers to all questions are plausible but not exact. Replace
// the code in roofline.cc with your knowledge of your chip.
namespace roofline {

namespace wire = meshwright::costmodel::v1;

// The lines of the breakdown, in this order; the names are those of Meshwright's breakdown_seconds.
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
  double recomputed_share = 1;  // share of the layers, under full recomputation
  double optimizer_offload = 0;
};

struct Estimate {
  wire::CandidateStatus status = wire::CANDIDATE_STATUS_OK;
  const char* reason = "";
  double seconds = 0;
  double peak_memory_bytes = 0;
  double lines[kLineCount] = {};
};

// A measurement of a chip that calibrates this model.
struct Test {
  const char* name;
  const char* what;
  const char* unit;
};
inline constexpr Test kTests[] = {
    {"matmul_bf16", "rate of a large bf16 matrix multiplication; fp16 where the chip has no bf16",
     "flops_per_second"},
    {"memory_copy", "bytes that a large copy reads and writes in a second", "bytes_per_second"}};

// Rates that were measured on a chip. The efficiencies are these divided by the nominal rates,
// which a question states.
struct Rates {
  double matmul = 0;
  double memory = 0;

  // Sets the rates from measurements; returns the mistake in them, or an empty string. The chip's
  // nominal rates come with a question, which is refused if measured rates exceed them.
  std::string Fit(const wire::FitCalibrationRequest& request);
  [[nodiscard]] std::string Text() const;  // the parameters that come back with a question
  bool Read(const std::string& text);
};

// A question that is prepared for many candidates. It is constant after construction, so any number
// of threads can use it.
class Roofline {
 public:
  // Returns the part of the question that the model does not know; empty if the model can answer
  // it.
  static std::string WhyRefused(const wire::OpenContextRequest& request);

  explicit Roofline(const wire::OpenContextRequest& request);

  [[nodiscard]] Estimate Of(const Candidate& candidate) const;
  // Returns a lower bound on the candidate's time: its matrix multiplications and their pipeline
  // bubble. Returns 0 if it is unknown.
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
  double flops_ = 0;  // per step, without recomputation
  double peak_ = 0;   // FLOP/s of a device
  double matmul_efficiency_ = 0;
  double memory_bandwidth_ = 0;
  double memory_capacity_ = 0;
  double inside_ = 0;   // bytes/s of a device inside the node
  double outside_ = 0;  // bytes/s of a device between nodes
  double exposed_gradients_ = 1;
};

// Reads candidate `index` from columns that are known to be well-formed.
class Columns {
 public:
  Columns(const wire::Candidates& candidates, int layers);
  [[nodiscard]] Candidate At(int index) const;

 private:
  const wire::Candidates& c_;
  std::vector<double> recomputed_share_;  // empty: every layer
};

// Returns the mistake in the columns; empty if there is none.
std::string WhyMalformed(const wire::Candidates& candidates);

}  // namespace roofline
