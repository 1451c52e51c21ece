#include "cli/reports/words.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "search_space/base/all_equal.h"
#include "search_space/base/count_text.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr RankOrder kUsualOrder = RankOrder::kTpCpEpDpPp;  // is not mentioned

// Returns three significant digits without an exponent.
std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

// Returns "13x4+3x3" for 13 stages of 4 and then 3 of 3.
template <typename Counts>
std::string Runs(const Counts& counts) {
  std::vector<std::string> runs;
  for (auto at = counts.begin(); at != counts.end();) {
    const auto end = std::find_if(at, counts.end(), [&](const auto& n) { return n != *at; });
    runs.push_back(end - at == 1 ? fmt::format("{}", *at) : fmt::format("{}x{}", end - at, *at));
    at = end;
  }
  return fmt::format("{}", fmt::join(runs, "+"));
}

std::string RecomputedLayers(const v1::Plan& plan) {
  const auto& counts = plan.recompute().layer_counts();
  const auto& layers = plan.layers_per_stage();
  if (counts.empty() || std::equal(counts.begin(), counts.end(), layers.begin(), layers.end())) {
    return " every layer";
  }
  if (!AllEqual(counts)) return fmt::format(" {} layers", Runs(counts));
  if (layers.empty() || !AllEqual(layers)) return fmt::format(" {} layers a stage", counts[0]);
  return fmt::format(" {}/{} layers", counts[0], layers[0]);
}

std::string RecomputeText(const v1::Plan& plan) {
  const v1::RecomputePlan& recompute = plan.recompute();
  if (!recompute.selective_layer_counts().empty()) {
    return fmt::format("full {} and selective {} layers", Runs(recompute.layer_counts()),
                       Runs(recompute.selective_layer_counts()));
  }
  if (recompute.granularity() == "full") return "full" + RecomputedLayers(plan);
  if (recompute.granularity() != "selective") return "none";
  return recompute.modules().empty()
             ? "selective"
             : fmt::format("selective {}", fmt::join(recompute.modules(), "+"));
}

std::string RecomputeOfStage(const v1::StagePlan& stage) {
  const v1::RecomputePlan& recompute = stage.recompute();
  if (recompute.granularity() != "full") {
    return recompute.granularity() == "selective" ? "selective" : "0";
  }
  const int count =
      recompute.layer_counts().empty() ? stage.layer_count() : recompute.layer_counts(0);
  return fmt::format("{}", count);
}

using Stages = google::protobuf::RepeatedPtrField<v1::StagePlan>;

// Returns a stretch of stages of one pool, from `first` to before `end`:
// "ix pp4 tp2 dp16 mb1, layers 2x10+2x11, recompute 3+2x1+0".
std::string StretchWords(const Stages& stages, int first, int end) {
  const v1::StagePlan& stage = stages[first];
  std::vector<int> layers;
  std::vector<std::string> recomputed;
  for (int i = first; i < end; ++i) {
    layers.push_back(stages[i].layer_count());
    recomputed.push_back(RecomputeOfStage(stages[i]));
  }
  std::string words = fmt::format("{} pp{} tp{} dp{}", stage.pool(), end - first,
                                  stage.tensor_parallel(), stage.data_parallel());
  if (stage.context_parallel() > 1) words += fmt::format(" cp{}", stage.context_parallel());
  return words + fmt::format(" mb{}, layers {}, recompute {}", stage.micro_batch_size(),
                             Runs(layers), Runs(recomputed));
}

bool AreAlike(const v1::StagePlan& a, const v1::StagePlan& b) {
  return a.pool() == b.pool() && a.tensor_parallel() == b.tensor_parallel() &&
         a.data_parallel() == b.data_parallel() && a.context_parallel() == b.context_parallel() &&
         a.micro_batch_size() == b.micro_batch_size();
}

// Returns a pipeline whose stages have shapes of their own, each stretch of like stages by itself.
std::string PipelineWords(const Stages& stages) {
  std::vector<std::string> stretches;
  for (int first = 0; first < stages.size();) {
    int end = first + 1;
    while (end < stages.size() && AreAlike(stages[first], stages[end])) ++end;
    stretches.push_back(StretchWords(stages, first, end));
    first = end;
  }
  return fmt::format("{}", fmt::join(stretches, "; "));
}

// Returns a plan whose stages have shapes of their own, or whose replicas differ: each group of
// these as "8 replicas of 48 micro-batches on ix ...". The plan's flat sizes do not hold for it.
std::string MixedWords(const v1::Plan& plan) {
  std::vector<std::string> pipelines;
  for (const v1::ReplicaGroup& group : plan.replica_groups()) {
    pipelines.push_back(fmt::format("{} {} of {} micro-batches on {}", group.replica_count(),
                                    group.replica_count() == 1 ? "replica" : "replicas",
                                    group.micro_batch_count(), PipelineWords(group.stages())));
  }
  if (pipelines.empty()) pipelines.push_back(PipelineWords(plan.stages()));
  std::string shared = fmt::format("{} zero{}", plan.schedule(), plan.zero_stage());
  if (plan.sequence_parallel()) shared += " sp";
  if (plan.expert_parallel() > 1) shared += fmt::format(" ep{}", plan.expert_parallel());
  return fmt::format("{}; {}", fmt::join(pipelines, "; "), shared);
}

void AddSizes(const v1::Plan& plan, std::vector<std::string>& words) {
  const auto add = [&](const char* name, int size) {
    if (size > 1) words.push_back(fmt::format("{}{}", name, size));
  };
  add("tp", plan.tensor_parallel());
  if (plan.sequence_parallel()) words.emplace_back("sp");
  add("pp", plan.pipeline_parallel());
  add("vp", plan.virtual_pipeline());
  words.push_back(fmt::format("dp{}", plan.data_parallel()));
  add("cp", plan.context_parallel());
  if (plan.context_parallel() > 1) words.push_back(plan.context_parallel_kind());
  add("ep", plan.expert_parallel());
  add("etp", plan.expert_tensor_parallel());
  words.push_back(fmt::format("mb{}", plan.micro_batch_size()));
  words.push_back(fmt::format("zero{}", plan.zero_stage()));
  add("in groups of ", plan.zero_group_size());
}

// Later fields of the message have no words of their own.
constexpr int kLastFieldWithWords = v1::Plan::kWholeWeightsRatioFieldNumber;

// Formats a field without special wording as its name and its value.
std::string FieldWords(const v1::Plan& plan, const google::protobuf::FieldDescriptor& field) {
  using google::protobuf::FieldDescriptor;
  std::string name = field.name();
  std::ranges::replace(name, '_', ' ');
  const auto& reflection = *plan.GetReflection();
  if (field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    std::vector<std::string> values;
    values.reserve(static_cast<std::size_t>(reflection.FieldSize(plan, &field)));
    for (int i = 0; i < reflection.FieldSize(plan, &field); ++i) {
      values.push_back(reflection.GetRepeatedString(plan, &field, i));
    }
    return fmt::format("{} {}", name, fmt::join(values, "+"));
  }
  if (field.is_repeated()) return fmt::format("{} {}", name, reflection.FieldSize(plan, &field));
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return name;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    return fmt::format("{} {}", name, reflection.GetInt32(plan, &field));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    return fmt::format("{} {}", name, PercentText(reflection.GetDouble(plan, &field)));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return fmt::format("{} {}", name, reflection.GetString(plan, &field));
  }
  return name;
}

void AddOtherFields(const v1::Plan& plan, std::vector<std::string>& words) {
  std::vector<const google::protobuf::FieldDescriptor*> stated;
  plan.GetReflection()->ListFields(plan, &stated);
  for (const auto* const field : stated) {
    if (field->number() > kLastFieldWithWords) words.push_back(FieldWords(plan, *field));
  }
}

}  // namespace

std::string SecondsText(double seconds) {
  if (seconds == 0) return "0 s";
  const double size = std::abs(seconds);
  if (size < 1e-3) return ThreeDigits(seconds * 1e6) + " us";
  if (size < 1) return ThreeDigits(seconds * 1e3) + " ms";
  return ThreeDigits(seconds) + " s";
}

std::string RoundedText(double count) { return CountText(std::llround(count)); }

std::string DaysText(double days) {
  return days < 1000 ? fmt::format("{:.3g}", days) : RoundedText(days);
}

std::string PriceText(double price) {
  return price < 1000 ? fmt::format("{:.3g}", price) : RoundedText(price);
}

std::string RunWords(const v1::RunCost& run) {
  std::string text =
      fmt::format("The run's {} steps take {} days ({} to {}) and {} device-hours",
                  RoundedText(run.step_count()), DaysText(run.days()), DaysText(run.low_days()),
                  DaysText(run.high_days()), RoundedText(run.device_hours()));
  if (run.has_price()) text += fmt::format(", at a price of {}", PriceText(run.price()));
  text += ".";
  if (run.has_max_device_energy_kilowatt_hours()) {
    text += fmt::format(" The devices use at most {} kWh.",
                        RoundedText(run.max_device_energy_kilowatt_hours()));
  }
  if (run.has_is_within_max_days() && !run.is_within_max_days()) {
    text += " That is longer than you allow.";
  }
  return text;
}

std::string GibText(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1073741824.0);
}

std::string PercentText(double ratio) { return fmt::format("{:.1f} %", ratio * 100); }

std::string ProbabilityText(double probability) {
  if (probability > 0.99) return "> 99 %";
  return probability < 0.01 ? "< 1 %" : fmt::format("{:.0f} %", 100 * probability);
}

std::string EndWords(const std::string& outcome, const std::string& failure_class) {
  if (outcome.empty()) return "-";
  if (failure_class.empty() || failure_class == outcome) return outcome;
  return fmt::format("{} ({})", outcome, failure_class);
}

std::string PlanWords(const v1::Plan& plan) {
  if (!plan.stages().empty() || !plan.replica_groups().empty()) return MixedWords(plan);
  std::vector<std::string> words;
  AddSizes(plan, words);
  if (plan.pipeline_parallel() > 1) words.push_back(plan.schedule());
  if (ParseChoice<RankOrder>(plan.rank_order()).value_or(kUsualOrder) != kUsualOrder) {
    words.push_back(plan.rank_order());
  }
  if (!plan.layers_per_stage().empty() && !AllEqual(plan.layers_per_stage())) {
    words.push_back("layers " + Runs(plan.layers_per_stage()));
  }
  if (plan.whole_weights_ratio() > 0) {
    words.push_back("whole weights " + PercentText(plan.whole_weights_ratio()));
  }
  if (plan.optimizer_offload_ratio() > 0) {
    words.push_back("offload " + PercentText(plan.optimizer_offload_ratio()));
  }
  if (plan.activation_offload_ratio() > 0) {
    words.push_back("activation offload " + PercentText(plan.activation_offload_ratio()));
  }
  AddOtherFields(plan, words);
  return fmt::format("{}, recompute {}", fmt::join(words, " "), RecomputeText(plan));
}

std::string CostModelLine(const v1::Estimate& estimate) {
  if (!estimate.has_cost_model()) return "";
  const v1::CostModelSource& model = estimate.cost_model();
  if (model.state() != "used") {
    return fmt::format("FALLBACK: all figures are the built-in model's; cost model {}: {}\n",
                       model.name(), model.reason());
  }
  const std::string calibrated = model.calibration_version().empty()
                                     ? ""
                                     : fmt::format(", calibration {}", model.calibration_version());
  return fmt::format("Step times by cost model {} {} of {}{}; memory by the built-in model\n",
                     model.name(), model.version(), model.vendor(), calibrated);
}

}  // namespace meshwright
