#include "server/tuner/import/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/tuner/import/job_size.h"
#include "server/tuner/import/job_source.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"
#include "server/tuner/import/text/setting.h"

namespace meshwright {
namespace {

struct Reader {
  std::string_view framework = {};
  void (*read)(SettingReader&, const ReaderContext&, ImportedJob&) = nullptr;
};

// Each framework that has a form of its own has a row here.
constexpr std::array kReaders = {
    Reader{"torchtitan", ReadTorchtitan},   Reader{"deepspeed", ReadDeepSpeed},
    Reader{"pytorch-fsdp", ReadAccelerate}, Reader{"maxtext", ReadMaxText},
    Reader{"nanotron", ReadNanotron},       Reader{"paddle", ReadPaddle}};

void Read(std::string_view framework, SettingReader& settings, const ReaderContext& context,
          ImportedJob& job) {
  const auto found = std::ranges::find(kReaders, framework, &Reader::framework);
  (found == kReaders.end() ? ReadMegatron : found->read)(settings, context, job);
}

// The batch sizes of a DeepSpeed file must be those of Megatron's arguments, and its stage of ZeRO
// is the one that counts.
void ReadDeepSpeedBeside(std::vector<Setting> file, SettingReader& flags, ImportedJob& job,
                         std::vector<UnusedKey>& unused) {
  SettingReader settings(std::move(file));
  const auto agree = [&](std::string_view key, std::string_view flag, std::optional<int> own) {
    const auto value = settings.Int(key);
    if (!value.has_value() || !own.has_value() || *value == *own) return;
    flags.Refuse(flag, fmt::format("{}; {} of the DeepSpeed file is {}", *own, key, *value));
  };
  agree("train_batch_size", "global-batch-size", job.workload.global_batch_size);
  agree("train_micro_batch_size_per_gpu", "micro-batch-size", job.plan.micro_batch_size);
  settings.Int("gradient_accumulation_steps");
  const auto stage = settings.Int("zero_optimization.stage");
  if (stage.has_value()) job.plan.zero_stage = *stage;
  const auto overlaps = settings.Bool("zero_optimization.overlap_comm");
  if (overlaps.has_value()) job.workload.overlap.gradient_reduce = *overlaps;
  for (const FieldViolation& violation : settings.violations()) {
    flags.Refuse(violation.field, violation.description);
  }
  for (UnusedKey& key : settings.TakeRest(OtherKeysOf("deepspeed"))) {
    unused.push_back(std::move(key));
  }
  for (const std::string& note : settings.notes()) flags.Note(note);
}

// Returns the request with the pools that the job names, in its order: those it uses.
ImportRequest WithPoolsOf(const JobSource& source, const ImportRequest& request,
                          std::vector<FieldViolation>& violations) {
  ImportRequest named = request;
  if (source.pools.empty() || request.pools.empty()) return named;
  named.pools.clear();
  int devices = 0;
  for (const std::string& name : source.pools) {
    const auto pool = std::ranges::find(request.pools, name, &PoolOfCluster::name);
    if (pool == request.pools.end()) {
      violations.push_back({.field = "MESHWRIGHT_POOLS",
                            .description = name + "; no pool of the cluster has this name"});
      return request;
    }
    named.pools.push_back(*pool);
    devices += pool->node_count * pool->devices_per_node;
  }
  named.devices = devices;
  return named;
}

// Returns the devices of the job: those that it states, or else those of the cluster.
std::optional<int> DevicesOf(const ImportRequest& request, const JobProcesses& processes,
                             std::vector<FieldViolation>& violations, ImportedJob& job) {
  job.devices = processes.Count();
  if (!job.devices.has_value()) {
    if (!processes.unresolved.empty() && request.devices.has_value()) {
      job.notes.push_back(fmt::format(
          "the number of processes depends on {}; read as the {} devices of the cluster",
          processes.unresolved, *request.devices));
    }
    return request.devices;
  }
  if (request.devices.has_value() && *request.devices != *job.devices) {
    violations.push_back(
        {.field = "devices",
         .description = fmt::format("{} processes, and {} devices in the cluster; change the "
                                    "script's variables with --set, or state its own cluster",
                                    *job.devices, *request.devices)});
    return std::nullopt;
  }
  return job.devices;
}

absl::Status Mistakes(std::vector<FieldViolation> violations) {
  for (FieldViolation& violation : violations) violation.field = "from." + violation.field;
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Cleans what the answer quotes of the file for people. Its values are checked where the question
// is read.
void CleanQuotes(ImportedJob& job) {
  const auto clean = [](std::string& text) {
    text = CleanText(text, {.longest_bytes = text.size(), .keeps_lines = true});
  };
  for (std::string& note : job.notes) clean(note);
  for (UnusedKey& unused : job.unused) {
    clean(unused.key);
    clean(unused.reason);
  }
}

}  // namespace

absl::StatusOr<ImportedJob> ImportJob(const ImportRequest& request) {
  ASSIGN_OR_RETURN(JobSource source, GatherJob(request));
  ImportedJob job;
  job.workload.framework_name = source.framework;
  job.notes = std::move(source.notes);
  std::vector<FieldViolation> violations;
  SettingReader launcher(std::move(source.launcher));
  const JobProcesses processes = TakeProcesses(launcher, source.batch);
  const ImportRequest named = WithPoolsOf(source, request, violations);
  const ReaderContext context = {.model = request.model,
                                 .devices = DevicesOf(named, processes, violations, job),
                                 .global_batch_size = request.global_batch_size,
                                 .pools = named.pools,
                                 .names_pools = !source.pools.empty()};
  SettingReader settings(std::move(source.settings));
  Read(source.framework, settings, context, job);
  if (!source.deepspeed.empty()) {
    ReadDeepSpeedBeside(std::move(source.deepspeed), settings, job, job.unused);
  }
  std::ranges::copy(settings.violations(), std::back_inserter(violations));
  RETURN_IF_ERROR(Mistakes(std::move(violations)));
  std::ranges::move(settings.TakeRest(OtherKeysOf(source.framework)),
                    std::back_inserter(job.unused));
  for (Setting& argument : source.program) {
    job.unused.push_back({.key = std::move(argument.key), .reason = "the program's own arguments"});
  }
  std::ranges::copy(settings.notes(), std::back_inserter(job.notes));
  CleanQuotes(job);
  return job;
}

}  // namespace meshwright
