#include "server/tuner/export/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "estimator/legality/chip_rules.h"
#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/base/edit_distance.h"
#include "search_space/base/lower_case.h"
#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan_fields.h"
#include "search_space/spec/plan_value.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/mixed_stages.h"
#include "server/tuner/export/model_family.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/refusals.h"

namespace meshwright {
namespace {

// The mixed plans that an exporter can write.
enum class Mixes {
  kNone,
  kEqualStages,  // that differ in their pools and layers only
  kMeshes,       // of their own tensor and data parallelism
};

struct Exporter {
  std::string_view framework;
  std::string_view profile;  // whose rules of legality hold
  std::string_view version;  // version of that framework, if the workload names another one
  LaunchConfig (*function)(const Problem&, const ParallelPlan&, Refusals&);
  bool has_files = true;  // false: its exports are flags only
  Mixes mixes = Mixes::kNone;
};

// Each framework has a file and a row here.
constexpr std::array kExporters = {
    Exporter{"megatron-core", "megatron-core", "0.14", ExportMegatronCore, false,
             Mixes::kEqualStages},
    Exporter{"megatron-lm", "megatron-lm", "2024", ExportMegatronLm, false},
    Exporter{"megatron-deepspeed", "megatron-deepspeed", "2022", ExportMegatronDeepSpeed},
    Exporter{"flagscale", "flagscale", "0.9", ExportFlagScale, true, Mixes::kMeshes},
    Exporter{"mindspeed", "mindspeed", "2024", ExportMindSpeed, false},
    Exporter{"torchtitan", "torchtitan", "0.2", ExportTorchtitan},
    Exporter{"pytorch-fsdp", "pytorch-fsdp", "2024", ExportPyTorchFsdp},
    Exporter{"deepspeed", "deepspeed", "0.16.4", ExportDeepSpeed},
    Exporter{"nanotron", "nanotron", "2024", ExportNanotron},
    Exporter{"paddle", "paddle", "3.0", ExportPaddle},
    Exporter{"maxtext", "maxtext", "2025", ExportMaxText},
    Exporter{"megatron-bridge", "megatron-core", "0.14", ExportMegatronBridge, true,
             Mixes::kEqualStages},
    Exporter{"nemo", "megatron-core", "0.14", ExportNemo, false, Mixes::kEqualStages},
};

const Exporter* FindExporter(std::string_view framework) {
  const auto found = std::ranges::find(kExporters, framework, &Exporter::framework);
  return found == kExporters.end() ? nullptr : &*found;
}

// Returns the names of the exports, and the one that was most likely meant: one with the given name
// inside, or else one with a few other letters.
std::string NamesAndClosest(std::string_view framework) {
  const std::string given = LowerCase(framework);
  const Exporter* closest = nullptr;
  std::size_t least = given.size() / 3 + 1;  // edits from which on a word is another one
  for (const Exporter& exporter : kExporters) {
    const bool is_part = !given.empty() && exporter.framework.find(given) != std::string_view::npos;
    const std::size_t edits = is_part ? 0 : EditDistance(given, exporter.framework);
    if (edits >= least) continue;
    least = edits;
    closest = &exporter;
  }
  const std::string names = fmt::format("{}", fmt::join(ExportFrameworks(), ", "));
  if (closest == nullptr) return names;
  return fmt::format("{}; did you mean \"{}\"?", names, closest->framework);
}

// Returns the frameworks that a workload can name and that have an exporter.
std::vector<std::string> FileFrameworks() {
  std::vector<std::string> names;
  for (const Exporter& exporter : kExporters) {
    if (exporter.framework == exporter.profile) names.emplace_back(exporter.framework);
  }
  return names;
}

// Fields added to plans later that the exporters handle.
constexpr std::string_view kKnownLaterFields[] = {"whole_weights_ratio"};

// Refuses other fields that are added to plans later, so that none is dropped silently.
void RefuseUnknownFields(const Exporter& exporter, const ParallelPlan& plan, Refusals& refusals) {
  ForEachRow(kPlanFields, [&](const auto& field) {
    if (field.facts.default_is_written != DefaultIsWritten::kNowhere) return;
    const std::string_view name = field.facts.name;
    const bool is_known = std::ranges::find(kKnownLaterFields, name) != std::end(kKnownLaterFields);
    if (is_known || plan.*field.member == DefaultOf(field)) return;
    refusals.Refuse(fmt::format("plan.{}", name),
                    fmt::format("{}; this exporter has no setting for it", PlanValue(plan, name)));
  });
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (plan.stages[i].device_count == 0 || exporter.mixes == Mixes::kMeshes) continue;
    refusals.Refuse(fmt::format("plan.stages[{}].device_count", i),
                    fmt::format("{}; this exporter writes stages of whole nodes only",
                                plan.stages[i].device_count));
  }
}

// Returns the rules of the exporter's framework, in the workload's version if it is the workload's
// framework, or else in the exporter's.
std::vector<const LegalityRule*> RulesOf(const Exporter& exporter, const Problem& problem) {
  if (exporter.profile == problem.workload.framework_name) return problem.legality;
  std::vector<const LegalityRule*> rules = LegalityRulesOf(exporter.profile, exporter.version);
  std::erase_if(rules, [](const LegalityRule* rule) { return rule->reads_profile; });
  return rules;
}

void RefuseIllegalFields(const Exporter& exporter, const Problem& problem, const ParallelPlan& plan,
                         Refusals& refusals) {
  const std::vector<const LegalityRule*> rules = RulesOf(exporter, problem);
  EstimatorProblem view = ToEstimatorProblem(problem);
  view.legality = rules;
  for (const LegalityRule* rule : BrokenRules(view, plan)) {
    refusals.Refuse(fmt::format("plan.{}", rule->field),
                    fmt::format("{}; {} refuses it: {} ({})", PlanValue(plan, rule->field),
                                exporter.framework, rule->sentence, rule->source));
  }
}

// Refuses the mixed plans that an exporter cannot write.
void RefuseMixes(const Exporter& exporter, const Problem& problem, const ParallelPlan& plan,
                 Refusals& refusals) {
  switch (exporter.mixes) {
    case Mixes::kNone:
      refusals.Refuse("plan.stages",
                      fmt::format("{} stages on pools of their own; this exporter writes no such "
                                  "plan for {}, and those for flagscale and megatron-core do",
                                  plan.stages.size(), exporter.framework));
      return;
    case Mixes::kEqualStages:
      RefusePoolNames(plan, refusals);
      RefuseUnequalStages(plan, exporter.framework, refusals);
      RefuseUnequalModules(plan, exporter.framework, refusals);
      return;
    case Mixes::kMeshes:
      RefusePoolNames(plan, refusals);
      RefuseIdleDevices(problem, plan, refusals);
      RefuseUnequalModules(plan, exporter.framework, refusals);
      return;
  }
}

// Adds what the ranks of the nodes have to do with the stages, where the command does not say it.
void AddNodeSettings(const Exporter& exporter, const Problem& problem, const ParallelPlan& plan,
                     LaunchConfig& config) {
  if (exporter.mixes != Mixes::kEqualStages) return;
  for (std::string& setting : NodeSettings(NodeGroupsOf(problem, plan))) {
    config.left_out.push_back(std::move(setting));
  }
  if (MixesVendors(problem, plan)) {
    config.left_out.emplace_back(
        "a collective library for the chips of all vendors, as --distributed-backend");
  }
}

absl::StatusOr<LaunchConfig> ExportMix(const Exporter& exporter, const Problem& problem,
                                       const ParallelPlan& plan) {
  Refusals refusals;
  RefuseMixes(exporter, problem, plan, refusals);
  RefuseIllegalFields(exporter, problem, plan, refusals);
  RETURN_IF_ERROR(refusals.Status());
  LaunchConfig config = exporter.function(problem, WithFlatFields(plan), refusals);
  RefuseUnknownFields(exporter, plan, refusals);
  RETURN_IF_ERROR(refusals.Status());
  AddNodeSettings(exporter, problem, plan, config);
  return config;
}

absl::StatusOr<LaunchConfig> ExportWith(const Exporter& exporter, const Problem& problem,
                                        const ParallelPlan& plan) {
  if (!plan.stages.empty()) return ExportMix(exporter, problem, plan);
  if (!plan.pools.empty()) {
    // Files of a job on one pool say nothing of the others.
    ParallelPlan alone = plan;
    alone.pools.clear();
    const bool has_others = problem.cluster.pools.size() > 1;
    return ExportWith(exporter, has_others ? OnlyPool(problem, plan.pools.front()) : problem,
                      alone);
  }
  Refusals refusals;
  LaunchConfig config = exporter.function(problem, plan, refusals);
  RefuseUnknownFields(exporter, plan, refusals);
  RefuseIllegalFields(exporter, problem, plan, refusals);
  RETURN_IF_ERROR(refusals.Status());
  return config;
}

void Warn(std::string warning, std::vector<std::string>& warnings) {
  if (std::ranges::find(warnings, warning) == warnings.end()) {
    warnings.push_back(std::move(warning));
  }
}

// Returns the exporter of recipes that build a model which the framework's own program does not
// build; null if none is known to.
const Exporter* RecipesFor(const Exporter& own, const ModelSpec& model) {
  const ModelFamily family = FamilyOf(model);
  const bool has_recipe = family == ModelFamily::kGemma2 || family == ModelFamily::kGemma3;
  return has_recipe && own.framework == "megatron-core" ? FindExporter("megatron-bridge") : nullptr;
}

bool IsOfModel(const FieldViolation& violation) { return violation.field.starts_with("model."); }

void AddExportOf(const Exporter& exporter, const Problem& problem, RankedPlan& ranked,
                 std::vector<std::string>& warnings) {
  auto config = ExportWith(exporter, problem, ranked.plan);
  if (config.ok()) {
    ranked.exports.insert_or_assign(std::string(exporter.framework), *std::move(config));
    return;
  }
  const Exporter* const recipes = RecipesFor(exporter, problem.model);
  const std::vector<FieldViolation> found = FieldViolations(config.status());
  if (recipes != nullptr && std::ranges::any_of(found, IsOfModel)) {
    auto recipe = ExportWith(*recipes, problem, ranked.plan);
    if (recipe.ok()) {
      ranked.exports.insert_or_assign(std::string(recipes->framework), *std::move(recipe));
      Warn(fmt::format(
               "no {} flags, because its own program does not build this model; a recipe of "
               "{} does, and its fields are shown ({})",
               exporter.framework, recipes->framework, std::string(config.status().message())),
           warnings);
      return;
    }
    config = recipe.status();
  }
  Warn(fmt::format("no {} export of some plans: {}", exporter.framework,
                   std::string(config.status().message())),
       warnings);
}

}  // namespace

absl::StatusOr<LaunchConfig> ExportPlan(std::string_view framework, const Problem& problem,
                                        const ParallelPlan& plan) {
  const Exporter* exporter = FindExporter(framework);
  if (exporter == nullptr) {
    return WithReason(absl::NotFoundError(fmt::format("framework = {}; known exports: {}",
                                                      framework, NamesAndClosest(framework))),
                      "UNKNOWN_EXPORT_FRAMEWORK");
  }
  return ExportWith(*exporter, problem, plan);
}

std::vector<FieldViolation> UnrunnableFields(const Problem& problem) {
  const Exporter* exporter = FindExporter(problem.workload.framework_name);
  if (exporter == nullptr) return {};
  // Data parallelism alone uses no setting of the workload that belongs to another kind of plan.
  Problem plain = problem;
  const ParallelPlan plan = {.data_parallel = DeviceCount(problem.cluster)};
  plain.workload.global_batch_size = plan.data_parallel;
  Refusals refusals;
  exporter->function(plain, plan, refusals);
  std::vector<FieldViolation> found = FieldViolations(refusals.Status());
  std::erase_if(found, [](const auto& violation) { return violation.field.starts_with("plan."); });
  if (RecipesFor(*exporter, problem.model) != nullptr) std::erase_if(found, IsOfModel);
  const std::vector<FieldViolation> of_chips = ChipViolations(ToEstimatorProblem(problem));
  found.insert(found.end(), of_chips.begin(), of_chips.end());
  return found;
}

std::vector<std::string> ExportFrameworks() {
  std::vector<std::string> names;
  names.reserve(kExporters.size());
  for (const Exporter& exporter : kExporters) names.emplace_back(exporter.framework);
  return names;
}

std::string_view ProfileOfExport(std::string_view framework) {
  const Exporter* exporter = FindExporter(framework);
  return exporter == nullptr ? "" : exporter->profile;
}

std::vector<std::string> FlagFrameworks() {
  std::vector<std::string> names;
  for (const Exporter& exporter : kExporters) {
    if (!exporter.has_files) names.emplace_back(exporter.framework);
  }
  return names;
}

void AddExport(const Problem& problem, RankedPlan& ranked, std::vector<std::string>& warnings) {
  const std::string& framework = problem.workload.framework_name;
  const Exporter* exporter = FindExporter(framework);
  if (exporter != nullptr) {
    AddExportOf(*exporter, problem, ranked, warnings);
    return;
  }
  Warn(fmt::format("no launch configuration for framework {}, for which there is no exporter: set "
                   "up the plans by hand, or name one of {}",
                   framework, fmt::join(FileFrameworks(), ", ")),
       warnings);
}

void AddExports(const Problem& problem, StudyResult& result) {
  const auto add = [&](RankedPlan& ranked) { AddExport(problem, ranked, result.warnings); };
  for (RankedPlan& ranked : result.plans) add(ranked);
  for (ParetoPoint& point : result.pareto_front) add(point.plan);
  if (result.model_optimum.has_value()) add(*result.model_optimum);
  if (result.baseline.has_value()) add(*result.baseline);
  const bool has_any = std::ranges::any_of(
      result.plans, [](const RankedPlan& plan) { return !plan.exports.empty(); });
  if (has_any || result.plans.empty()) return;
  const std::string some = "export of some plans";
  for (std::string& warning : result.warnings) {
    const std::size_t at = warning.find(some);
    if (at != std::string::npos) warning.replace(at, some.size(), "export of any plan");
  }
}

}  // namespace meshwright
