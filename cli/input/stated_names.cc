#include "cli/input/stated_names.h"

#include <string>
#include <utility>

#include "cli/detect/detect_cluster.h"

namespace meshwright {
namespace {

void AddFile(const char* field, const char* flag, const std::string& path, FieldNames& names) {
  if (!path.empty()) names.push_back({.field = field, .flag = flag, .file = path});
}

void AppendNames(FieldNames&& from, FieldNames& to) {
  for (FieldName& name : from) to.push_back(std::move(name));
}

void AddLaunchFile(const LaunchFileFlags& flags, FieldNames& names) {
  AddFile("from", "--from", flags.path, names);
  names.push_back({.field = "set", .flag = "--set"});
}

void AddTrials(const TrialFlags& flags, FieldNames& names) {
  names.insert(names.end(),
               {{.field = "trials", .flag = "--launcher"},
                {.field = "trials.launcher", .flag = "--launcher"},
                {.field = "trials.max_trials", .flag = "--max-trials"},
                {.field = "trials.max_device_seconds", .flag = "--max-device-seconds"},
                {.field = "trials.max_seconds", .flag = "--max-trial-seconds"},
                {.field = "trials.stop_within_ratio", .flag = "--stop-within"},
                {.field = "trials.interleave_baseline", .flag = "--interleave-baseline"},
                {.field = "trials.confirm_plans", .flag = "--confirm-plans"},
                {.field = "trials.job", .flag = "--job", .file = flags.job},
                {.field = "trials.job.template_name", .flag = "--job-template"},
                {.field = "trials.replay", .flag = "--replay", .file = flags.replay}});
}

// Adds the names of the clusters beside the first. Of several chips only the name of the chip
// differs.
void AddOthers(const ClusterFlags& flags, FieldNames& names) {
  int index = 0;
  for (const ClusterFlags& other : OtherClusters(flags)) {
    FieldNames own = NamesOf(other);
    for (FieldName& name : own) name.field = OtherField(name.field, index);
    AppendNames(std::move(own), names);
    ++index;
  }
}

}  // namespace

FieldNames NamesOf(const ClusterFlags& flags) {
  FieldNames names;
  if (!flags.source.empty()) {
    names.push_back({.field = "cluster", .flag = "--cluster", .file = flags.source});
  }
  const auto add_fact = [&names](bool is_stated, const char* field, const char* flag) {
    if (is_stated) names.push_back({.field = field, .flag = flag});
  };
  const bool may_have_facts =
      flags.source.empty() || ParseClusterPlace(flags.source).has_value();  // a file has its own
  if (!may_have_facts) return names;
  add_fact(!flags.chip.empty(), "cluster.pools[0].chip", "--chip");
  add_fact(flags.node_count.has_value(), "cluster.pools[0].node_count", "--nodes");
  add_fact(flags.devices_per_node.has_value(), "cluster.pools[0].devices_per_node",
           "--devices-per-node");
  add_fact(flags.nic_gigabits_per_second.has_value(),
           "cluster.pools[0].inter_node.nic_gigabits_per_second", "--nic");
  return names;
}

FieldNames NamesOf(const QuestionFlags& flags) {
  FieldNames names;
  AddLaunchFile(flags.from, names);
  // Beside a launch script these fields keep their paths: either of the two may state them.
  if (flags.from.path.empty()) {
    AddFile("model", "--model", flags.model, names);
    AddFile("workload", "--workload", flags.workload, names);
  }
  if (flags.sequence_length.has_value()) {
    names.push_back({.field = "workload.sequence_length", .flag = "--sequence-length"});
  }
  if (flags.global_batch_size.has_value()) {
    names.push_back({.field = "workload.global_batch_size", .flag = "--global-batch-size"});
  }
  if (!flags.framework.empty()) {
    names.push_back({.field = "workload.framework.name", .flag = "--framework"});
  }
  if (!flags.framework_version.empty()) {
    names.push_back({.field = "workload.framework.version", .flag = "--framework"});
  }
  AppendNames(NamesOf(flags.cluster), names);
  AddOthers(flags.cluster, names);
  return names;
}

FieldNames NamesOf(const TuneFlags& flags) {
  FieldNames names = {{.field = "plan_count", .flag = "--top"},
                      {.field = "min_fit_probability_ratio", .flag = "--min-fit-probability"},
                      {.field = "tie_probability_ratio", .flag = "--tie"},
                      {.field = "mix_margin_ratio", .flag = "--mix-margin"},
                      {.field = "history_sequence", .flag = "--history-sequence"},
                      {.field = "deadline_seconds", .flag = "--deadline"},
                      {.field = "strategy", .flag = "--strategy"},
                      {.field = "evaluation_limit", .flag = "--evaluations"},
                      {.field = "pareto", .flag = "--pareto"},
                      {.field = "dimensions", .flag = "--dimension"},
                      {.field = "disabled_rules", .flag = "--disable-rule"},
                      {.field = "cost_model", .flag = "--cost-model"},
                      {.field = "run.token_count", .flag = "--tokens"},
                      {.field = "run.max_days", .flag = "--days"},
                      {.field = "run.device_hour_prices", .flag = "--device-hour-price"}};
  AppendNames(NamesOf(flags.question), names);
  AddFile("baseline", "--baseline", flags.baseline, names);
  AppendNames(HistoryNames(flags.history), names);
  AddTrials(flags.trials, names);
  return names;
}

FieldNames NamesOf(const CaseFlags& flags) {
  if (!HasQuestion(flags)) return CaseNames("--plan", flags.plan);
  FieldNames names = NamesOf(flags.question);
  AddFile("plan", "--plan", flags.plan, names);
  return names;
}

FieldNames NamesOf(const ReportFlags& flags) {
  FieldNames names = {{.field = "request_id", .flag = "--request-id"},
                      {.field = "study_id", .flag = "--study"},
                      {.field = "rank", .flag = "--rank"},
                      {.field = "framework_version", .flag = "--framework-version"},
                      {.field = "outcome", .flag = "--outcome"},
                      {.field = "step_time_seconds", .flag = "--step-time"},
                      {.field = "peak_memory_bytes", .flag = "--peak-memory"},
                      {.field = "job_name", .flag = "--job"},
                      {.field = "note", .flag = "--note"},
                      {.field = "log_format", .flag = "--log-format"}};
  names.push_back({.field = "log", .flag = "--log"});
  AppendNames(NamesOf(flags.question), names);
  AddFile("plan", "--plan", flags.plan, names);
  return names;
}

FieldNames NamesOf(const MeasurementFlags& /*flags*/) {
  return {{.field = "filter.chip", .flag = "--chip"},
          {.field = "filter.framework", .flag = "--framework"},
          {.field = "filter.model_name", .flag = "--model-name"},
          {.field = "filter.study_id", .flag = "--study"},
          {.field = "filter.outcome", .flag = "--outcome"},
          {.field = "filter.up_to_sequence", .flag = "--up-to"},
          {.field = "filter.is_retracted", .flag = "--retracted"},
          {.field = "filter.source", .flag = "--source"},
          {.field = "chip", .flag = "--chip"},
          {.field = "order", .flag = "--order"},
          {.field = "page_size", .flag = "--page-size"},
          {.field = "page_token", .flag = "--page-token"},
          {.field = "conflict_policy", .flag = "--conflict"},
          {.field = "reason", .flag = "--reason"},
          {.field = "trial_number", .flag = "--trial"}};
}

FieldNames CaseNames(const std::string& flag, const std::string& path) {
  return {{.field = "", .flag = flag, .file = path}, {.field = "case", .flag = flag, .file = path}};
}

FieldNames HistoryNames(const std::string& path) {
  FieldNames names;
  AddFile("history", "--history", path, names);
  return names;
}

}  // namespace meshwright
