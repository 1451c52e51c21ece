#include "server/tuner/learning/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/learning/normal.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/memory_model.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/learning/calibration_report.h"
#include "server/tuner/learning/history_runs.h"
#include "server/tuner/learning/modelled_job.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

// Number of standard deviations beyond which other jobs' runs do not apply to this job.
constexpr double kMaxDisagreement = 2;
// Number of standard deviations beyond which a lack of memory is not the model's fault: a factor of
// 1.5 without measured memory.
constexpr double kMaxSurprise = 4;

// Returns the index of `value` among those seen before; the question's is first.
template <typename T>
int IndexOf(T value, std::vector<T>& seen) {
  const auto found = std::find(seen.begin(), seen.end(), value);
  const auto index = static_cast<int>(found - seen.begin());
  if (found == seen.end()) seen.push_back(std::move(value));
  return index;
}

// Returns numbers that do not depend on the order of appearance; the question's stays 0.
std::vector<int> Ranks(const std::vector<std::string>& seen) {
  std::vector<int> ranks(seen.size());
  for (std::size_t i = 1; i < seen.size(); ++i) {
    const auto before = std::count_if(seen.begin() + 1, seen.end(),
                                      [&](const std::string& other) { return other < seen[i]; });
    ranks[i] = 1 + static_cast<int>(before);
  }
  return ranks;
}

// Returns the name of a job other than the question's; two jobs may share it.
std::string JobName(const Problem& problem) {
  return fmt::format("{} on {} devices",
                     problem.model.name.empty() ? "another model" : problem.model.name,
                     DeviceCount(problem.cluster));
}

// A run of the question's own job that ran out of memory.
struct MemoryFailure {
  double least_log_memory = 0;  // the logarithm of the factor on modelled memory is larger
  Bytes reserved = {};          // modelled
};

struct Evidence {
  std::vector<const Problem*> jobs = {};
  std::map<const Problem*, int> job_indices = {};  // of all problems seen
  std::vector<std::string> versions = {};
  std::vector<std::string> nodes = {};
  std::vector<RunResidual> time = {};
  std::vector<RunResidual> memory = {};
  std::vector<FailedRun> failed = {};
  std::vector<ParallelPlan> ran = {};  // plans of the question's own job
  Bytes largest_run = {};              // modelled, on devices with no more memory
  std::vector<MemoryFailure> memory_failures = {};
  std::optional<double> most_log_memory = {};  // the job needs less, since a plan ran
  std::vector<PastRun> runs = {};              // all runs that teach anything
  int by_own_facts_count = 0;                  // runs that the question's facts do not allow
  int other_facts_count = 0;  // remaining runs that stated other facts than the question
  std::set<std::string> other_facts = {};  // their names
};

// Returns the names of the facts that only one of the two states or that differ in value.
std::set<std::string> DifferingFacts(const std::vector<FrameworkFactRequest>& a,
                                     const std::vector<FrameworkFactRequest>& b) {
  std::set<std::string> names;
  const auto add_missing = [&names](const auto& facts, const auto& others) {
    for (const FrameworkFactRequest& fact : facts) {
      if (std::ranges::find(others, fact) == others.end()) names.insert(fact.name);
    }
  };
  add_missing(a, b);
  add_missing(b, a);
  return names;
}

PastRun PastRunOf(const ResolvedRun& run, const ModelledJob& modelled, std::size_t index) {
  return {.measurement_id = run.measurement_id,
          .history_index = static_cast<int>(index),
          .model_name = run.problem->model.name,
          .cluster_name = run.problem->cluster.name,
          .framework_version = run.problem->workload.framework_version,
          .plan_key = modelled.plan_key,
          .outcome = run.outcome};
}

void CountFacts(const ResolvedRun& run, const Problem& problem, Evidence& evidence) {
  evidence.by_own_facts_count += run.is_by_own_facts ? 1 : 0;
  if (run.is_by_own_facts) return;
  std::set<std::string> names =
      DifferingFacts(run.stated->framework_facts, problem.framework_facts);
  evidence.other_facts_count += names.empty() ? 0 : 1;
  evidence.other_facts.merge(names);
}

// Returns the index of the job among those seen before; the question's is first. Many runs share
// one problem.
int JobIndex(const Problem& job, Evidence& evidence) {
  const auto [known, is_new] = evidence.job_indices.try_emplace(&job, 0);
  if (!is_new) return known->second;
  std::vector<const Problem*>& seen = evidence.jobs;
  const auto found =
      std::ranges::find_if(seen, [&](const Problem* other) { return IsSameJob(*other, job); });
  known->second = static_cast<int>(found - seen.begin());
  if (found == seen.end()) seen.push_back(&job);
  return known->second;
}

// Notes what a run of the question's own job that reports no memory proves of it: that it was too
// much or not.
void BoundMemory(const ResolvedRun& row, const ModelledJob& modelled, Evidence& evidence) {
  const Problem& own = *row.problem;
  const MemoryModel memory(ToEstimatorProblem(own), {});
  const NodePool& pool = own.cluster.pools[modelled.fullest_pool];
  const Bytes reserved = modelled.reserved_memory;
  const double ratio = memory.FillingRatio(reserved, pool);
  if (!(ratio > 0)) return;  // the runtime's own memory fills the device
  const double bound = std::log(ratio);
  if (row.outcome == Outcome::kOk) {
    evidence.most_log_memory = std::min(evidence.most_log_memory.value_or(bound), bound);
  } else if (row.outcome == Outcome::kOom) {
    evidence.memory_failures.push_back({.least_log_memory = bound, .reserved = reserved});
  }
}

// `known` holds lessons of the chips of a mix.
void Collect(const ResolvedRun& row, std::size_t index, const Problem& problem,
             const Calibration& known, Evidence& evidence) {
  if (!IsComparable(*row.stated, problem)) return;
  CountFacts(row, problem, evidence);
  const Problem& own = *row.problem;
  const ParallelPlan& plan = row.plan;
  const bool is_modelled = row.modelled != nullptr && known.chips.empty();
  const std::shared_ptr<const ModelledJob> shared =
      is_modelled ? row.modelled : std::make_shared<const ModelledJob>(ModelJob(own, plan, known));
  const ModelledJob& modelled = *shared;
  const int job = JobIndex(own, evidence);
  const Bytes capacity = own.cluster.pools[modelled.fullest_pool].memory_capacity;
  RunResidual run = {.point = modelled.point,
                     .job = job,
                     .version = IndexOf(own.workload.framework_version, evidence.versions),
                     .nodes = IndexOf(modelled.nodes, evidence.nodes)};
  PastRun& past = evidence.runs.emplace_back(PastRunOf(row, modelled, index));
  past.similarity = SimilarityToQuestion(run, kTimePrior);
  if (job == 0 && !row.peak_memory.has_value()) {
    BoundMemory(row, modelled, evidence);
  }
  if (row.outcome != Outcome::kOk) {
    evidence.failed.push_back({.plan = plan,
                               .outcome = row.outcome,
                               .reserved_memory = modelled.reserved_memory,
                               .memory_capacity = capacity,
                               .job = job == 0 ? "" : JobName(own)});
    return;
  }
  if (job == 0) evidence.ran.push_back(plan);
  if (capacity <= problem.cluster.pools.front().memory_capacity) {
    evidence.largest_run = std::max(evidence.largest_run, modelled.reserved_memory);
  }
  if (row.step_time.has_value() && row.step_time->count() > 0) {
    past.time_ratio = *row.step_time / modelled.step_time;
    run.log_ratio = std::log(*past.time_ratio);
    evidence.time.push_back(run);
  }
  if (row.peak_memory.has_value() && row.peak_memory->count > 0) {
    past.memory_ratio = *row.peak_memory / modelled.peak_memory;
    run.log_ratio = std::log(*past.memory_ratio);
    evidence.memory.push_back(run);
  }
}

// Returns the out-of-memory run with the least modelled memory, on devices with no less memory than
// the question's, unless a larger run succeeded.
std::optional<FailedRun> SmallestOutOfMemory(const Evidence& evidence, Bytes capacity) {
  std::optional<FailedRun> smallest;
  for (const FailedRun& run : evidence.failed) {
    const bool counts = run.outcome == Outcome::kOom && run.memory_capacity >= capacity &&
                        run.reserved_memory > evidence.largest_run;
    if (!counts) continue;
    // The question's own runs come first: their names are shorter.
    const auto order = [](const FailedRun& r) {
      return std::tie(r.reserved_memory, r.job, r.plan, r.memory_capacity);
    };
    if (!smallest.has_value() || order(run) < order(*smallest)) smallest = run;
  }
  return smallest;
}

// Returns true if `count` failures of a plan that never ran rule it out. One crash or hang may be
// the machine's fault, but not two. A plan that took too long may have been given too little time.
bool RulesOut(Outcome outcome, std::ptrdiff_t count) {
  return outcome == Outcome::kOom ||
         ((outcome == Outcome::kCrash || outcome == Outcome::kHang) && count > 1);
}

// Returns the failures of the question's own job whose plans never ran, one per plan.
std::vector<FailedRun> OwnFailures(const Evidence& evidence) {
  std::vector<FailedRun> own;
  for (const FailedRun& run : evidence.failed) {
    const bool ran = std::ranges::find(evidence.ran, run.plan) != evidence.ran.end();
    const auto count = std::ranges::count_if(evidence.failed, [&run](const FailedRun& other) {
      return other.job.empty() && other.plan == run.plan && other.outcome == run.outcome;
    });
    if (run.job.empty() && !ran && RulesOut(run.outcome, count)) own.push_back(run);
  }
  std::ranges::sort(own);
  const auto is_repeat = [](const FailedRun& a, const FailedRun& b) { return a.plan == b.plan; };
  own.erase(std::unique(own.begin(), own.end(), is_repeat), own.end());
  return own;
}

struct Fitted {
  FittedResiduals residuals = {};
  bool leaves_out_others = false;
};

// Fits the runs. Leaves out other jobs' runs if those of the question contradict them, and warns
// which of the two was done.
Fitted Fit(std::vector<RunResidual> runs, const ResidualPrior& prior, std::string_view what,
           const Problem& problem, std::vector<std::string>& warnings) {
  const auto is_other = [](const RunResidual& run) { return run.job != 0; };
  const auto is_other_version = [](const RunResidual& run) { return run.version != 0; };
  const auto others = std::ranges::count_if(runs, is_other);
  const auto versions = std::ranges::count_if(runs, is_other_version);
  const auto nodes = std::ranges::count_if(
      runs, [&](const RunResidual& run) { return run.nodes != 0 && !is_other_version(run); });
  const double disagreement = Disagreement(runs, prior);
  const bool leaves_out_others = disagreement > kMaxDisagreement;
  if (leaves_out_others) {
    std::erase_if(runs, is_other);
    warnings.push_back(fmt::format(
        "{}: {} runs of other models, workloads or clusters in the history were left out: this "
        "job's own runs are {:.1f} standard deviations away from them; the limit is {}",
        what, others, disagreement, kMaxDisagreement));
  } else if (others > 0) {
    warnings.push_back(fmt::format(
        "{}: learnt from {} runs of this job and {} of other models, workloads or clusters on {} "
        "under {}, which count as {} alike ({} of them on other nodes: {}; {} under another "
        "version: {})",
        what, std::ssize(runs) - others, others, problem.cluster.pools.front().chip.id,
        problem.profile.name, prior.same_nodes_similarity, nodes, prior.other_nodes_similarity,
        versions, kOtherVersionSimilarity));
  }
  return {.residuals = FitResiduals(runs, prior), .leaves_out_others = leaves_out_others};
}

void ForgetOthers(std::vector<PastRun>& runs, std::optional<double> PastRun::*ratio) {
  for (PastRun& run : runs) {
    if (run.similarity < 1) (run.*ratio).reset();
  }
}

// Drops failures that teach nothing: one that is not out of memory counts only if it rules its plan
// out.
void ForgetFailuresThatProveNothing(const std::vector<FailedRun>& own, std::vector<PastRun>& runs) {
  std::erase_if(runs, [&own](const PastRun& run) {
    if (run.outcome == Outcome::kOk || run.outcome == Outcome::kOom) return false;
    return run.similarity < 1 || std::ranges::none_of(own, [&run](const FailedRun& failed) {
             return MakePlanKey(failed.plan).text == run.plan_key;
           });
  });
}

// Returns what is known of the job's factor of memory before its failures.
Normal MemoryBelief(const FittedResiduals& memory) {
  const ResidualPrior& prior = kMemoryPrior;
  if (memory.points.empty()) {
    return {.mean = JobLogFactor(memory),
            .variance = prior.job * prior.job + prior.noise * prior.noise};
  }
  return {.mean = JobLogFactor(memory),
          .variance = FactorVariance(memory, {}) + memory.noise_variance};
}

void WarnOfStrangeFailure(const MemoryFailure& failure, double surprise, Calibration& calibration) {
  calibration.warnings.push_back(fmt::format(
      "memory: a plan that the model estimates at {:.2f} GiB ran out of memory, {:.1f} standard "
      "deviations from what is known of the model's errors: plans of its size are left out, but "
      "the model is not moved (limit {}) until another run fails like it; another process may "
      "have held the memory",
      failure.reserved / GiB(1), surprise, kMaxSurprise));
}

// Moves the memory model by the job's own runs that ran out of memory without saying how much they
// needed: the factor's distribution is cut off below what each failure implies. A single failure
// that is too far from all that is known, the smaller failures included, is another's fault
// (another process on the device, a leak) and only rules out plans of its size.
void LearnFromFailures(Evidence& evidence, Calibration& calibration) {
  std::vector<MemoryFailure>& failures = evidence.memory_failures;
  std::ranges::sort(failures, {}, &MemoryFailure::least_log_memory);
  const Normal before = MemoryBelief(calibration.memory);
  // A plan that ran needs less than a failure that implies more.
  const std::optional<double>& most = evidence.most_log_memory;
  const MemoryFailure* believed = nullptr;
  for (const MemoryFailure& failure : failures) {
    const Normal belief = calibration.bounded_memory.value_or(before);
    const double surprise = (failure.least_log_memory - belief.mean) / std::sqrt(belief.variance);
    if (failure.least_log_memory <= before.mean) continue;  // as the model expects
    if (surprise > kMaxSurprise && &failure == &failures.back()) {
      WarnOfStrangeFailure(failure, surprise, calibration);
      break;
    }
    if (most.value_or(INFINITY) <= failure.least_log_memory) break;
    calibration.bounded_memory = Bounded(before, failure.least_log_memory, most);
    believed = &failure;
  }
  if (believed == nullptr) return;
  calibration.memory_ratio = std::exp(calibration.bounded_memory->mean);
  calibration.warnings.push_back(fmt::format(
      "memory: a plan that the model estimates at {:.2f} GiB ran out of memory, so this job is "
      "taken to need {:.3f} times what the model says",
      believed->reserved / GiB(1), calibration.memory_ratio));
}

struct Gathered {
  Calibration calibration = {};
  std::vector<PastRun> runs = {};
};

Gathered Gather(const std::vector<ResolvedRun>& history, const Problem& problem);

// Learns of each kind of chips of a cluster that has several, by the runs on such chips alone.
Calibration LearnChips(const std::vector<ResolvedRun>& history, const Problem& problem) {
  Calibration known;
  if (problem.cluster.pools.size() == 1) return known;
  for (const NodePool& pool : problem.cluster.pools) {
    if (LessonOf(known, pool.chip.id) != nullptr) continue;
    const auto [alone, runs] = Gather(history, OnlyPool(problem, pool.name));
    if (runs.empty()) continue;
    known.chips.push_back({.chip = pool.chip.id,
                           .time_ratio = alone.time_ratio,
                           .memory_ratio = alone.memory_ratio,
                           .out_of_memory = alone.out_of_memory});
    known.warnings.push_back(
        fmt::format("stages on {} are expected to take {:.3f} times as long as modelled and {:.3f} "
                    "times the memory, by {} runs only on such chips",
                    pool.chip.id, alone.time_ratio, alone.memory_ratio, runs.size()));
  }
  return known;
}

Gathered Gather(const std::vector<ResolvedRun>& history, const Problem& problem) {
  Calibration calibration = LearnChips(history, problem);
  Evidence evidence = {.jobs = {&problem},
                       .versions = {problem.workload.framework_version},
                       .nodes = {NodesOf(problem)}};
  for (std::size_t i = 0; i < history.size(); ++i) {
    Collect(history[i], i, problem, calibration, evidence);
  }
  const std::vector<int> versions = Ranks(evidence.versions);
  const std::vector<int> nodes = Ranks(evidence.nodes);
  for (std::vector<RunResidual>* runs : {&evidence.time, &evidence.memory}) {
    for (RunResidual& run : *runs) {
      run.version = versions[static_cast<std::size_t>(run.version)];
      run.nodes = nodes[static_cast<std::size_t>(run.nodes)];
    }
  }
  if (evidence.by_own_facts_count > 0) {
    calibration.warnings.push_back(
        fmt::format("{} runs of the history are of plans that this question's framework facts do "
                    "not allow: they are compared with the model under the facts of their own "
                    "question",
                    evidence.by_own_facts_count));
  }
  if (evidence.other_facts_count > 0) {
    calibration.warnings.push_back(
        fmt::format("{} runs of the history had other framework facts ({}): they are compared "
                    "with the model under this question's facts and count like the others",
                    evidence.other_facts_count, fmt::join(evidence.other_facts, ", ")));
  }
  Fitted time =
      Fit(std::move(evidence.time), kTimePrior, "step times", problem, calibration.warnings);
  if (time.leaves_out_others) ForgetOthers(evidence.runs, &PastRun::time_ratio);
  calibration.leaves_out_other_times = time.leaves_out_others;
  calibration.time = std::move(time.residuals);
  Fitted memory =
      Fit(std::move(evidence.memory), kMemoryPrior, "memory", problem, calibration.warnings);
  if (memory.leaves_out_others) ForgetOthers(evidence.runs, &PastRun::memory_ratio);
  calibration.leaves_out_other_memory = memory.leaves_out_others;
  calibration.memory = std::move(memory.residuals);
  calibration.time_ratio = std::exp(JobLogFactor(calibration.time));
  calibration.memory_ratio = std::exp(JobLogFactor(calibration.memory));
  LearnFromFailures(evidence, calibration);
  calibration.out_of_memory =
      SmallestOutOfMemory(evidence, problem.cluster.pools.front().memory_capacity);
  calibration.failed = OwnFailures(evidence);
  ForgetFailuresThatProveNothing(calibration.failed, evidence.runs);
  return {.calibration = std::move(calibration), .runs = std::move(evidence.runs)};
}

}  // namespace

bool ForgetFailuresIfOff(const std::vector<std::string>& disabled_rules, Calibration& calibration) {
  if (IsRuleOn(kHistoryRule, disabled_rules)) return false;
  calibration.out_of_memory.reset();
  calibration.failed.clear();
  return true;
}

std::vector<std::string> WarningsOf(const Problem& problem, const Calibration& calibration) {
  std::vector<std::string> warnings = problem.warnings;
  warnings.insert(warnings.end(), calibration.warnings.begin(), calibration.warnings.end());
  return warnings;
}

Calibration Calibrate(const std::vector<ResolvedRun>& runs, const Problem& problem) {
  return Gather(runs, problem).calibration;
}

HistoryTerms TermsOf(const StudyRequest& request) {
  return {.sequence = request.history_sequence.value_or(0),
          .warnings = request.warnings,
          .disabled_rules = request.disabled_rules};
}

LearntCalibration LearnCalibration(const HistoryTerms& terms, const Problem& problem,
                                   const std::vector<ResolvedRun>& runs) {
  Gathered gathered = Gather(runs, problem);
  LearntCalibration learnt = {.calibration = std::move(gathered.calibration)};
  if (ForgetFailuresIfOff(terms.disabled_rules, learnt.calibration)) {
    std::erase_if(gathered.runs, [](const PastRun& run) { return run.outcome != Outcome::kOk; });
  }
  std::vector<std::string>& warnings = learnt.calibration.warnings;
  warnings.insert(warnings.end(), terms.warnings.begin(), terms.warnings.end());
  learnt.report = ReportCalibration(problem, learnt.calibration, std::move(gathered.runs));
  if (learnt.report.has_value()) learnt.report->history_sequence = terms.sequence;
  return learnt;
}

}  // namespace meshwright
