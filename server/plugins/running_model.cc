#include "server/plugins/running_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>

#include "search_space/base/status.h"
#include "server/plugins/protocol/protocol.h"
#include "server/plugins/wire/call_limits.h"
#include "server/plugins/wire/declared.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// While a poison plan is searched for, a model that has answered before gets, for each part, this
// multiple of its slowest answer so far instead of the whole deadline.
constexpr int kPatience = 20;
constexpr milliseconds kLeastPatience(1'000);
constexpr int kMaxIsolated = 8;  // plans per batch; after them the rest is not asked
constexpr milliseconds kEndTime(200);
constexpr milliseconds kTurnLook(20);  // how often a waiting caller looks at its stop token
constexpr int kMaxDoublings = 16;      // doublings of the back-off until it is the longest

std::string TextOf(const absl::Status& status) {
  return fmt::format("{}: {}", absl::StatusCodeToString(status.code()),
                     std::string(status.message()));
}

// Returns true if the model itself refused the question: it lives, and would refuse again.
PlanFigures NotAskedAfter(int failed) {
  return {.verdict = PlanVerdict::kError,
          .reason = fmt::format("the model failed on {} other plans of the batch", failed)};
}

}  // namespace

// One call of Estimate.
struct RunningModel::Batch {
  Context& context;
  const BatchOptions& options;
  milliseconds deadline;
};

RunningModel::RunningModel(ModelManifest manifest, FailurePolicy policy, ModelEvent on_event)
    : manifest_(std::move(manifest)), policy_(policy), on_event_(std::move(on_event)) {}

RunningModel::~RunningModel() { Stop(); }

void RunningModel::Tell(std::string_view event, const std::string& what) const {
  if (on_event_) on_event_(event, what);
}

int RunningModel::RecentFailures() {
  const Clock::time_point begin = Clock::now() - policy_.window;
  std::erase_if(failures_, [&](Clock::time_point time) { return time < begin; });
  return static_cast<int>(failures_.size());
}

void RunningModel::CountFailure(const std::string& what, std::string_view event) {
  failures_.push_back(Clock::now());
  last_failure_ = what;
  Tell(event, what);
  if (RecentFailures() >= policy_.most_failures) {
    Tell("given_up", fmt::format("{} failures", RecentFailures()));
  }
}

// Looks after a failed call: a process that crashed is described, one that hangs is ended.
std::string RunningModel::EndProcess(const absl::Status& failure) {
  std::string what = TextOf(failure);
  if (process_ == nullptr) return what;
  const bool is_hang = absl::IsDeadlineExceeded(failure);
  // A crash closes the socket a moment before the process is seen to end.
  if (!is_hang && process_->WaitForEnd(kEndTime)) {
    what = fmt::format("the model crashed: {}", process_->how_it_ended());
  } else if (is_hang) {
    what = "the model hung: no answer by the batch's deadline";
  }
  client_.reset();
  process_.reset();
  return what;
}

absl::StatusOr<RunningModel::Turn> RunningModel::TakeTurn(const std::stop_token& cancel) {
  Turn turn(mutex_, std::defer_lock);
  while (!turn.try_lock_for(kTurnLook)) {
    if (cancel.stop_requested()) return absl::CancelledError("cancelled");
  }
  CloseLeft();
  return turn;
}

absl::Status RunningModel::BackOff(const std::stop_token& cancel) {
  const int count = RecentFailures();
  if (count >= policy_.most_failures) {
    return WithReason(
        absl::UnavailableError(fmt::format(
            "cost model {} failed {} times in {:.0f} s and is not started again; the last time: {}",
            manifest_.name, count, std::chrono::duration<double>(policy_.window).count(),
            last_failure_)),
        "COST_MODEL_GIVEN_UP");
  }
  if (count == 0) return absl::OkStatus();
  const int doublings = std::min(count - 1, kMaxDoublings);
  const milliseconds wait =
      std::min(policy_.longest_back_off, policy_.first_back_off * (1 << doublings));
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_until(lock, cancel, failures_.back() + wait,
                                           [] { return false; });
  return cancel.stop_requested() ? absl::CancelledError("cancelled") : absl::OkStatus();
}

absl::Status RunningModel::StartOnce(const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const ProcessSpec spec, SpecOf(manifest_));
  const Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(process_, ModelProcess::Start(spec));
  RETURN_IF_ERROR(process_->WaitForSocket(policy_.start_timeout, cancel));
  const auto left = [&] {
    const auto spent = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    return std::max(milliseconds(1), policy_.start_timeout - spent);
  };
  auto connected = ModelClient::Connect(process_->socket(), left(), cancel);
  if (!connected.ok()) return process_->WithLastWords(connected.status());
  client_ = *std::move(connected);
  RETURN_IF_ERROR(client_->CheckHealth({.timeout = left(), .cancel = cancel}));
  ASSIGN_OR_RETURN(info_, client_->GetInfo({.timeout = left(), .cancel = cancel}));
  ++process_number_;
  Tell("started", fmt::format("{} {} {}", info_.name, info_.version, process_->isolation()));
  return absl::OkStatus();
}

absl::Status RunningModel::EnsureRunning(const std::stop_token& cancel) {
  if (client_ != nullptr && !process_->has_ended()) return absl::OkStatus();
  if (client_ != nullptr) CountFailure(EndProcess(absl::UnavailableError("it ended")));
  RETURN_IF_ERROR(BackOff(cancel));
  absl::Status started = StartOnce(cancel);
  if (started.ok()) return started;
  client_.reset();
  process_.reset();
  if (cancel.stop_requested()) return absl::CancelledError("cancelled");
  if (absl::IsFailedPrecondition(started) || absl::IsNotFound(started)) return started;
  CountFailure(TextOf(started), "not_started");
  return WithReason(absl::UnavailableError(fmt::format("cost model {}: {}", manifest_.name,
                                                       std::string(started.message()))),
                    "COST_MODEL_START");
}

absl::StatusOr<ModelInfo> RunningModel::Start(const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(cancel));
  if (absl::Status running = EnsureRunning(cancel); !running.ok()) return running;
  return info_;
}

std::string RunningModel::Isolation() {
  const std::lock_guard lock(mutex_);
  return process_ == nullptr ? std::string() : process_->isolation();
}

int RunningModel::Pid() {
  const std::lock_guard lock(mutex_);
  return process_ == nullptr ? 0 : process_->pid();
}

void RunningModel::Stop() {
  const std::lock_guard lock(mutex_);
  client_.reset();
  process_.reset();
}

absl::Status RunningModel::OpenLocked(Context& context, const std::stop_token& cancel) {
  RETURN_IF_ERROR(EnsureRunning(cancel));
  if (context.process == process_number_) return absl::OkStatus();
  if (const auto missing = Undeclared(info_, *context.problem); !missing.empty()) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("cost model {} does not take this question: {}",
                                                  manifest_.name, fmt::join(missing, "; "))),
        "COST_MODEL_REFUSED");
  }
  auto opened =
      client_->OpenContext(*context.problem, context.calibration,
                           {.timeout = manifest_.limits.batch_deadline, .cancel = cancel});
  if (opened.ok()) {
    context.handle = opened->handle;
    context.process = process_number_;
    context.warnings = std::move(opened->warnings);
    context.version = {.name = manifest_.name,
                       .vendor = info_.vendor,
                       .version = info_.version,
                       .protocol = fmt::format("{}.{}", info_.protocol_major, info_.protocol_minor),
                       .checksum = manifest_.sha256,
                       .is_deterministic = info_.is_deterministic};
    return absl::OkStatus();
  }
  if (cancel.stop_requested()) {
    LookAfterCancel();
    return absl::CancelledError("cancelled");
  }
  if (IsRefusal(opened.status())) {
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("cost model {} does not take this question: {}",
                                      manifest_.name, std::string(opened.status().message()))),
                      "COST_MODEL_REFUSED");
  }
  const std::string what = EndProcess(opened.status());
  CountFailure(what, "not_opened");
  return WithReason(
      absl::UnavailableError(fmt::format("cost model {}: OpenContext: {}", manifest_.name, what)),
      "COST_MODEL_FAILED");
}

absl::Status RunningModel::Open(Context& context, const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(cancel));
  return OpenLocked(context, cancel);
}

void RunningModel::Close(Context& context) {
  {
    const std::lock_guard lock(left_mutex_);
    left_.emplace_back(std::exchange(context.process, 0), context.handle);
  }
  if (const Turn turn(mutex_, std::try_to_lock); turn.owns_lock()) CloseLeft();
}

void RunningModel::CloseLeft() {
  std::vector<std::pair<std::int64_t, std::int64_t>> left;
  {
    const std::lock_guard lock(left_mutex_);
    left.swap(left_);
  }
  for (const auto& [process, handle] : left) {
    if (client_ == nullptr || process != process_number_) continue;
    // A model that cannot even do this is dealt with at the next call.
    client_->CloseContext(handle, {.timeout = policy_.cancel_grace}).IgnoreError();
  }
}

// A cancelled call must end soon; a model that then does not answer is ended.
void RunningModel::LookAfterCancel() {
  if (client_ == nullptr) return;
  const auto alive = client_->GetInfo({.timeout = policy_.cancel_grace});
  if (alive.ok()) return;
  Tell("failed", "the model did not end a call that was cancelled");
  client_.reset();
  process_.reset();
}

// Leaves no process behind if it fails.
absl::Status RunningModel::Ask(Batch& batch, Plans plans, Figures figures) {
  RETURN_IF_ERROR(OpenLocked(batch.context, batch.options.cancel));
  const Clock::time_point start = Clock::now();
  auto answered = client_->EstimateBatch(batch.context.handle, plans, *batch.context.problem,
                                         {.timeout = batch.deadline,
                                          .cancel = batch.options.cancel,
                                          .with_breakdown = batch.options.with_breakdown});
  if (answered.ok()) {
    const Clock::duration spent = Clock::now() - start;
    slowest_batch_ = std::max(slowest_batch_.value_or(spent), spent);
    std::ranges::move(*answered, figures.begin());
    return absl::OkStatus();
  }
  if (batch.options.cancel.stop_requested()) {
    LookAfterCancel();
    return absl::CancelledError("cancelled");
  }
  return WithReason(absl::UnavailableError(EndProcess(answered.status())), "COST_MODEL_FAILED");
}

// Returns the time for a part of a batch that had `whole`. A model that never answered one gets a
// share of it.
milliseconds RunningModel::Patience(milliseconds whole, std::size_t part, std::size_t size) const {
  const auto due = slowest_batch_.has_value()
                       ? std::chrono::ceil<milliseconds>(kPatience * *slowest_batch_)
                       : whole * static_cast<std::int64_t>(part) / static_cast<std::int64_t>(size);
  return std::max(kLeastPatience, due);
}

// Asks for one plan if nothing was answered yet, to learn how long an answer takes, above all the
// first of a process. OK even if the model fails on it.
absl::Status RunningModel::LearnItsPace(Batch& batch, Plans plans, Figures figures) {
  if (slowest_batch_.has_value() || plans.size() == 1) return absl::OkStatus();
  absl::Status asked = Ask(batch, plans.last(1), figures.last(1));
  return Reason(asked) == "COST_MODEL_FAILED" ? absl::OkStatus() : asked;
}

// Finds the plans on which a batch fails, by halves. A plan that fails by itself is asked once
// more: a model that fails now and then gets another chance in a new process.
absl::Status RunningModel::Isolate(Batch& batch, Plans plans, Figures figures) {
  struct Range {
    std::size_t begin;
    std::size_t size;
    bool has_failed = false;
    bool is_first_half = false;  // the other half is next in line
  };
  const milliseconds whole = batch.deadline;
  RETURN_IF_ERROR(LearnItsPace(batch, plans, figures));
  std::vector<Range> left = {{.begin = 0, .size = plans.size(), .has_failed = true}};
  int isolated = 0;
  while (!left.empty()) {
    Range range = left.back();
    left.pop_back();
    if (range.has_failed && range.size > 1) {
      const std::size_t half = range.size / 2;
      left.push_back({.begin = range.begin + half, .size = range.size - half});
      left.push_back({.begin = range.begin, .size = half, .is_first_half = true});
      continue;
    }
    batch.deadline = std::min(whole, Patience(whole, range.size, plans.size()));
    absl::Status asked = Ask(batch, plans.subspan(range.begin, range.size),
                             figures.subspan(range.begin, range.size));
    if (asked.ok()) {
      // A single plan is asked first.
      if (range.is_first_half && left.back().size > 1) left.back().has_failed = true;
    } else if (Reason(asked) != "COST_MODEL_FAILED") {
      return asked;
    } else if (!range.has_failed) {
      left.push_back({.begin = range.begin, .size = range.size, .has_failed = true});
    } else if (isolated == kMaxIsolated) {
      left.push_back(range);
      break;
    } else {
      Condemn(batch.context, plans[range.begin], figures[range.begin], asked);
      ++isolated;
    }
  }
  for (const Range& range : left) {
    std::ranges::fill(figures.subspan(range.begin, range.size), NotAskedAfter(isolated));
  }
  if (!left.empty()) CountFailure(fmt::format("it failed on {} plans of one batch", isolated));
  batch.deadline = whole;
  return absl::OkStatus();
}

void RunningModel::Condemn(const Context& context, const ParallelPlan& plan, PlanFigures& figures,
                           const absl::Status& failure) {
  figures = {.verdict = PlanVerdict::kError,
             .reason = std::string(failure.message()) + "; this plan is not estimated again"};
  const std::string key = MakePlanKey(plan).text;
  poison_.insert(context.key + key);
  Tell("poisoned", key);
}

absl::Status RunningModel::EstimateBatch(Batch& batch, Plans plans, Figures figures) {
  absl::Status asked = Ask(batch, plans, figures);
  if (asked.ok() || Reason(asked) != "COST_MODEL_FAILED") return asked;
  CountFailure(std::string(asked.message()));
  // If none was ever answered, halving finds nothing.
  const bool is_hopeless = !slowest_batch_.has_value() && RecentFailures() >= policy_.most_failures;
  if (is_hopeless) return BackOff(batch.options.cancel);
  // It counts as one failure, however many processes it takes to find its plans.
  const std::vector<Clock::time_point> counted = std::exchange(failures_, {});
  absl::Status isolated = Isolate(batch, plans, figures);
  failures_.insert(failures_.begin(), counted.begin(), counted.end());
  return isolated;
}

bool RunningModel::IsPoison(const Context& context, const ParallelPlan& plan) const {
  return !poison_.empty() && poison_.contains(context.key + MakePlanKey(plan).text);
}

std::size_t RunningModel::BatchLimit() const {
  if (info_.max_batch_size <= 0) return kBatchSize;
  return std::min(kBatchSize, static_cast<std::size_t>(info_.max_batch_size));
}

absl::StatusOr<std::vector<PlanFigures>> RunningModel::Estimate(Context& context,
                                                                std::span<const ParallelPlan> plans,
                                                                const BatchOptions& options) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(options.cancel));
  if (absl::Status opened = OpenLocked(context, options.cancel); !opened.ok()) return opened;
  std::vector<PlanFigures> figures(plans.size());
  std::vector<ParallelPlan> asked;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (StagesNamePools(plans[i])) {
      figures[i] = {.verdict = PlanVerdict::kUnsupported,
                    .reason = "protocol 1.0 does not support plans with explicit stages"};
    } else if (IsPoison(context, plans[i])) {
      figures[i] = {.verdict = PlanVerdict::kError,
                    .reason = "the model failed on this plan before"};
    } else {
      places.push_back(i);
      asked.push_back(plans[i]);
    }
  }
  const std::size_t limit = BatchLimit();
  std::vector<PlanFigures> answers(asked.size());
  Batch batch = {
      .context = context, .options = options, .deadline = manifest_.limits.batch_deadline};
  for (std::size_t at = 0; at < asked.size(); at += limit) {
    const std::size_t count = std::min(limit, asked.size() - at);
    if (absl::Status status = EstimateBatch(batch, Plans(asked).subspan(at, count),
                                            Figures(answers).subspan(at, count));
        !status.ok()) {
      return status;
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) figures[places[i]] = std::move(answers[i]);
  return figures;
}

// Makes a call outside of a batch: a refusal is the model's answer, and any other failure ends its
// process, as for a batch.
template <typename Call>
auto RunningModel::CallOnce(const std::stop_token& cancel, const Call& call) {
  using Answer = decltype(call(CallLimits()));
  Answer answer = call(CallLimits{.timeout = manifest_.limits.batch_deadline, .cancel = cancel});
  if (answer.ok() || IsRefusal(answer.status())) return answer;
  if (cancel.stop_requested()) {
    LookAfterCancel();
    return Answer(absl::CancelledError("cancelled"));
  }
  const std::string what = EndProcess(answer.status());
  CountFailure(what);
  return Answer(
      WithReason(absl::UnavailableError(fmt::format("cost model {}: {}", manifest_.name, what)),
                 "COST_MODEL_FAILED"));
}

absl::StatusOr<std::vector<double>> RunningModel::LowerBounds(Context& context,
                                                              std::span<const ParallelPlan> plans,
                                                              const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(cancel));
  const std::vector<double> none;
  const bool is_asked =
      info_.has_lower_bound && !context.refuses_bounds && process_number_ > last_without_bounds_;
  if (!is_asked) return none;
  if (absl::Status opened = OpenLocked(context, cancel); !opened.ok()) return opened;
  const auto is_askable = [&](const ParallelPlan& plan) {
    return !StagesNamePools(plan) && !IsPoison(context, plan);
  };
  std::vector<double> bounds;
  const std::size_t limit = BatchLimit();
  for (std::size_t at = 0; at < plans.size(); at += limit) {
    const Plans batch = plans.subspan(at, std::min(limit, plans.size() - at));
    if (!std::ranges::all_of(batch, is_askable)) {  // rare; Estimate tells them apart
      bounds.resize(bounds.size() + batch.size(), 0);
      continue;
    }
    const auto part = CallOnce(cancel, [&](const CallLimits& limits) {
      return client_->LowerBound(context.handle, batch, *context.problem, limits);
    });
    if (absl::IsCancelled(part.status())) return part.status();
    if (!part.ok()) {
      if (IsRefusal(part.status())) {
        context.refuses_bounds = true;
      } else {
        last_without_bounds_ = process_number_ + 1;
      }
      Tell("no_bounds", std::string(part.status().message()));
      return none;
    }
    bounds.insert(bounds.end(), part->begin(), part->end());
  }
  return bounds;
}

absl::StatusOr<std::vector<std::string>> RunningModel::Explain(Context& context,
                                                               const ParallelPlan& plan,
                                                               const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(cancel));
  if (absl::Status opened = OpenLocked(context, cancel); !opened.ok()) return opened;
  if (IsPoison(context, plan)) {
    return absl::FailedPreconditionError("the model failed on this plan before");
  }
  return CallOnce(cancel, [&](const CallLimits& limits) {
    return client_->Explain(context.handle, plan, *context.problem, limits);
  });
}

absl::StatusOr<std::vector<CalibrationTest>> RunningModel::ListCalibrationTests(
    const std::string& chip, const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(cancel));
  if (absl::Status running = EnsureRunning(cancel); !running.ok()) return running;
  return CallOnce(cancel, [&](const CallLimits& limits) {
    return client_->ListCalibrationTests(chip, limits);
  });
}

absl::StatusOr<FittedCalibration> RunningModel::FitCalibration(
    const std::string& chip, std::span<const TestMeasurement> measurements,
    const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const Turn turn, TakeTurn(cancel));
  if (absl::Status running = EnsureRunning(cancel); !running.ok()) return running;
  return CallOnce(cancel, [&](const CallLimits& limits) {
    return client_->FitCalibration(chip, measurements, limits);
  });
}

}  // namespace meshwright
