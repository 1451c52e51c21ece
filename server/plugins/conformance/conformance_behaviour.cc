// Checks of a model's behaviour: determinism, batches, malformed input, deadlines, restarts, leaks,
// speed.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <stop_token>
#include <thread>

#include "search_space/spec/plan.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/plugins/protocol/protocol.h"
#include "server/plugins/wire/declared.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kBehaviourPlans = 200;
constexpr int kLargestBatch = 8192;  // largest tried if a model states no limit
constexpr int kContexts = 200;
constexpr std::size_t kContextPlans = 16;
constexpr int kMaxCallers = 4;
constexpr int kRounds = 8;  // calls of each caller
constexpr std::int64_t kMaxGrowth = 64 << 20;
constexpr double kLeastRate = 20'000;  // candidates a second
// The rate is measured for at least this long, and for up to this long while it is too low.
constexpr std::chrono::duration<double> kLeastRateTime(0.25);
constexpr std::chrono::duration<double> kMaxRateTime(1.0);
constexpr int kInterruptions = 8;
constexpr int kRestarts = 3;

std::string PlanText(const ParallelPlan& plan) { return MakePlanKey(plan).text; }

// Returns the first difference; empty if all are equal.
std::string Difference(const std::vector<PlanFigures>& a, const std::vector<PlanFigures>& b,
                       const std::vector<ParallelPlan>& plans) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (AreEqual(a[i], b[i])) continue;
    return fmt::format("{}: {:.17g} s and {:.17g} s", PlanText(plans[i]), a[i].step_time.count(),
                       b[i].step_time.count());
  }
  return "";
}

Finding CheckDeterminism(ConformanceSession& session) {
  if (!session.info().is_deterministic) return Skipped("it does not say that it is deterministic");
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kBehaviourPlans);
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  const auto first = session.Ask(*context, plans);
  if (!first.ok()) return Failed("EstimateBatch", first.status());
  const auto again = session.Ask(*context, plans);
  if (!again.ok()) return Failed("EstimateBatch", again.status());
  if (auto text = Difference(*first, *again, plans); !text.empty()) return Failed("again: " + text);
  const std::vector<ParallelPlan> turned(plans.rbegin(), plans.rend());
  auto backwards = session.Ask(*context, turned);
  if (!backwards.ok()) return Failed("EstimateBatch", backwards.status());
  std::ranges::reverse(*backwards);
  if (auto text = Difference(*first, *backwards, plans); !text.empty()) {
    return Failed("in another order: " + text);
  }
  for (std::size_t i = 0; i < plans.size(); i += 37) {
    const auto alone = session.Ask(*context, {plans[i]});
    if (!alone.ok()) return Failed("EstimateBatch", alone.status());
    if (auto text = Difference({(*first)[i]}, *alone, {plans[i]}); !text.empty()) {
      return Failed("alone: " + text);
    }
  }
  if (const absl::Status restarted = session.Restart(); !restarted.ok()) {
    return Failed("restart", restarted);
  }
  const auto later = session.AskAbout(session.problem(), plans);
  if (!later.ok()) return Failed("EstimateBatch", later.status());
  const std::string text = Difference(*first, *later, plans);
  return text.empty() ? Passed() : Failed("in another process: " + text);
}

wire::Candidates Many(ConformanceSession& session, int count) {
  std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kBatchSize);
  std::vector<ParallelPlan> many;
  many.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) many.push_back(plans[static_cast<std::size_t>(i) % plans.size()]);
  return ToCandidates(many, session.problem());
}

Finding CheckBatches(ConformanceSession& session) {
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  const int stated = session.info().max_batch_size;
  const int largest = stated > 0 ? stated : kLargestBatch;
  for (const int count : {0, 1, largest}) {
    const auto raw = session.AskRaw(*context, Many(session, count));
    if (!raw.ok()) return Failed(fmt::format("a batch of {}", count), raw.status());
    const auto answers = FromWire(*raw, static_cast<std::size_t>(count), false);
    if (!answers.ok()) return Failed(fmt::format("a batch of {}", count), answers.status());
  }
  if (stated == 0) return Passed("it states no limit");
  const auto oversized = session.AskRaw(*context, Many(session, stated + 1));
  const bool is_refused = absl::IsInvalidArgument(oversized.status()) ||
                          absl::IsResourceExhausted(oversized.status()) ||
                          absl::IsOutOfRange(oversized.status());
  return is_refused ? Passed(fmt::format("at most {}", stated))
                    : Failed(fmt::format("a batch of {}, above its limit, is not refused as "
                                         "INVALID_ARGUMENT",
                                         stated + 1));
}

// Changes a column that may be absent because all plans have its default.
template <typename Value>
void SetFirst(Value value, Value absent, int count,
              google::protobuf::RepeatedField<Value>& column) {
  if (column.empty()) column.Resize(count, absent);
  column.Set(0, value);
}

// Checks a bad row among good ones: it must not be OK, and the others must be as they would be
// without it.
Finding CheckBadRow(ConformanceSession& session, std::int64_t context, const std::string& what,
                    void (*spoil)(wire::Candidates& candidates)) {
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), 16);
  const auto good = session.AskRaw(context, ToCandidates(plans, session.problem()));
  if (!good.ok()) return Failed("EstimateBatch", good.status());
  wire::Candidates candidates = ToCandidates(plans, session.problem());
  spoil(candidates);
  const auto raw = session.AskRaw(context, candidates);
  if (!raw.ok()) return Failed(what + " fails the whole batch", raw.status());
  const auto before = FromWire(*good, plans.size(), false);
  const auto after = FromWire(*raw, plans.size(), false);
  if (!before.ok() || !after.ok()) return Failed(what + " changes the shape of the answer");
  if (after->front().verdict == PlanVerdict::kOk) return Failed(what + " is OK");
  for (std::size_t i = 1; i < plans.size(); ++i) {
    if (!AreAlike((*before)[i], (*after)[i])) {
      return Failed(what + " changes the answer about another candidate");
    }
  }
  return Passed();
}

// Checks a question that must be refused, or answered with nothing that is OK.
Finding CheckBadQuestion(ConformanceSession& session, const std::string& what,
                         void (*spoil)(wire::OpenContextRequest& request)) {
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), 4);
  wire::OpenContextRequest request = ToContext(session.problem());
  spoil(request);
  const auto context = session.Open(request);
  if (IsRefusal(context.status())) return Passed();
  if (!context.ok()) return Failed("a question with " + what + " is not refused", context.status());
  const auto answers = session.Ask(*context, plans);
  if (const absl::Status closed = session.Close(*context); !closed.ok()) {
    return Failed("CloseContext", closed);
  }
  if (IsRefusal(answers.status())) return Passed();
  if (!answers.ok()) return Failed("a question with " + what + " is not refused", answers.status());
  const bool has_ok = std::ranges::any_of(
      *answers, [](const PlanFigures& figures) { return figures.verdict == PlanVerdict::kOk; });
  return has_ok ? Failed("a question with " + what + " is answered") : Passed();
}

Finding CheckBadQuestions(ConformanceSession& session) {
  constexpr struct {
    const char* what;
    void (*spoil)(wire::OpenContextRequest& request);
  } kSpoilt[] = {
      {"no pool", [](wire::OpenContextRequest& r) { r.mutable_cluster()->clear_pools(); }},
      {"no layers", [](wire::OpenContextRequest& r) { r.mutable_model()->set_layer_count(0); }},
      {"a batch of -1",
       [](wire::OpenContextRequest& r) { r.mutable_workload()->set_global_batch_size(-1); }},
      {"a bandwidth that is not a number",
       [](wire::OpenContextRequest& r) {
         r.mutable_cluster()
             ->mutable_pools(0)
             ->mutable_chip()
             ->set_memory_bandwidth_bytes_per_second(std::numeric_limits<double>::quiet_NaN());
       }},
  };
  for (const auto& [what, spoil] : kSpoilt) {
    Finding finding = CheckBadQuestion(session, what, spoil);
    if (finding.outcome != CheckOutcome::kPassed) return finding;
  }
  return Passed();
}

Finding CheckMalformed(ConformanceSession& session) {
  if (Finding questions = CheckBadQuestions(session); questions.outcome != CheckOutcome::kPassed) {
    return questions;
  }
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  wire::Candidates ragged = Many(session, 4);
  ragged.add_tensor_parallel(1);
  if (session.AskRaw(*context, ragged).ok()) {
    return Failed("columns of unequal length are answered");
  }
  wire::Candidates negative = Many(session, 4);
  negative.set_count(-1);
  if (session.AskRaw(*context, negative).ok()) return Failed("a count of -1 is answered");
  wire::Candidates lists = Many(session, 4);
  for (const int length : {1, 1, 1, 5}) lists.add_recompute_layers_length(length);
  lists.add_recompute_layers(1);
  if (session.AskRaw(*context, lists).ok()) return Failed("lists shorter than stated are answered");
  Finding finding = CheckBadRow(
      session, *context, "a candidate with size 0",
      [](wire::Candidates& c) { SetFirst(0, 1, c.count(), *c.mutable_micro_batch_size()); });
  if (finding.outcome == CheckOutcome::kPassed) {
    finding = CheckBadRow(session, *context, "a candidate with size -3", [](wire::Candidates& c) {
      SetFirst(-3, 1, c.count(), *c.mutable_data_parallel());
    });
  }
  if (finding.outcome == CheckOutcome::kPassed) {
    finding = CheckBadRow(session, *context, "a candidate with a ratio that is not a number",
                          [](wire::Candidates& c) {
                            SetFirst(std::numeric_limits<double>::quiet_NaN(), 0.0, c.count(),
                                     *c.mutable_optimizer_offload_ratio());
                          });
  }
  return finding;
}

Finding CheckContexts(ConformanceSession& session) {
  const wire::Candidates one = Many(session, 1);
  if (!absl::IsNotFound(session.AskRaw(987'654'321, one).status())) {
    return Failed("a context that was never opened is not NOT_FOUND");
  }
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kContextPlans);
  const auto alone = session.Ask(*context, plans);
  if (!alone.ok()) return Failed("EstimateBatch", alone.status());
  Problem larger = session.problem();
  larger.workload.global_batch_size *= 2;
  const auto other = session.Open(larger);
  if (!other.ok()) return Failed("OpenContext, a second one", other.status());
  if (*context == *other) return Failed("two contexts have the same id");
  const auto beside = session.Ask(*context, plans);
  if (!beside.ok()) return Failed("EstimateBatch beside another context", beside.status());
  if (!std::ranges::equal(*alone, *beside, &AreAlike)) {
    return Failed("opening another context changes the answers of the first");
  }
  if (const absl::Status closed = session.Close(*context); !closed.ok()) {
    return Failed("CloseContext", closed);
  }
  if (!absl::IsNotFound(session.AskRaw(*context, one).status())) {
    return Failed("a context that was closed is not NOT_FOUND");
  }
  return session.AskRaw(*other, one).ok() ? Passed() : Failed("closing one context closes others");
}

// Gives up a call after a time, by its deadline or by its caller. OK if it ended for that, or had
// been answered before.
absl::Status Interrupt(ConformanceSession& session, std::int64_t context,
                       const wire::Candidates& batch, Clock::duration after, bool is_deadline) {
  if (is_deadline) {
    const auto timeout = std::max(milliseconds(1), std::chrono::ceil<milliseconds>(after));
    const absl::Status status = session.AskRaw(context, batch, {.timeout = timeout}).status();
    // A model that gives up by itself at the same moment says CANCELLED.
    const bool is_given_up = absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
    return is_given_up ? absl::OkStatus() : status;
  }
  std::stop_source stop;
  const std::jthread caller([&] {
    std::this_thread::sleep_for(after);
    stop.request_stop();
  });
  const absl::Status status = session.AskRaw(context, batch, {.cancel = stop.get_token()}).status();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

Finding CheckCancellation(ConformanceSession& session) {
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kContextPlans);
  const auto before = session.Ask(*context, plans);
  if (!before.ok()) return Failed("EstimateBatch", before.status());
  const int stated = session.info().max_batch_size;
  const wire::Candidates many = Many(session, stated > 0 ? std::max(1, stated / 2) : kLargestBatch);
  const Clock::time_point start = Clock::now();
  if (const auto whole = session.AskRaw(*context, many); !whole.ok()) {
    return Failed(fmt::format("a batch of {}", many.count()), whole.status());
  }
  const Clock::duration whole_time = Clock::now() - start;
  // The moments are spread over the time that the call takes, so that some fall into the work
  // itself.
  for (int i = 0; i < kInterruptions; ++i) {
    const bool is_deadline = i % 2 == 0;
    const absl::Status status =
        Interrupt(session, *context, many, whole_time * i / kInterruptions, is_deadline);
    if (!status.ok()) return Failed(is_deadline ? "a deadline" : "a cancelled call", status);
  }
  if (const absl::Status ping = session.Ping(); !ping.ok()) {
    return Failed("it does not answer within 2 s after cancelled calls", ping);
  }
  const auto after = session.Ask(*context, plans);
  if (!after.ok()) return Failed("after cancelled calls the context is gone", after.status());
  return std::ranges::equal(*before, *after, &AreAlike)
             ? Passed(fmt::format("{} calls of up to {:.3g} s", kInterruptions,
                                  std::chrono::duration<double>(whole_time).count()))
             : Failed("after cancelled calls the answers differ");
}

Finding CheckLeaks(ConformanceSession& session) {
  const auto round = [&](int contexts) {
    for (int i = 0; i < contexts; ++i) {
      const auto answers =
          session.AskAbout(session.problem(), ConformancePlans(session.problem(), 64));
      if (!answers.ok()) return answers.status();
    }
    return absl::OkStatus();
  };
  if (const absl::Status warm = round(kContexts / 4); !warm.ok()) return Failed("warm-up", warm);
  const std::int64_t before = session.process().memory_in_use();
  if (const absl::Status done = round(kContexts); !done.ok()) {
    return Failed("opening and closing contexts", done);
  }
  const std::int64_t growth = session.process().memory_in_use() - before;
  const std::string seen = fmt::format("{:.1f} MiB more after {} contexts",
                                       static_cast<double>(growth) / (1 << 20), kContexts);
  return growth <= kMaxGrowth ? Passed(seen) : Failed(seen);
}

// Runs one of several callers; returns how its answers differ from those to a single caller, or an
// empty text.
std::string AskBesideOthers(ConformanceSession& session, const std::vector<ParallelPlan>& plans,
                            const std::vector<PlanFigures>& expected) {
  for (int i = 0; i < kRounds; ++i) {
    const auto answers = session.AskAbout(session.problem(), plans);
    if (!answers.ok()) return std::string(answers.status().message());
    if (!std::ranges::equal(expected, *answers, &AreAlike)) return "other answers";
    if (!session.info().is_deterministic) continue;
    if (std::string text = Difference(expected, *answers, plans); !text.empty()) return text;
  }
  return "";
}

Finding CheckConcurrency(ConformanceSession& session) {
  const int callers = std::clamp(session.info().max_concurrent_batches, 1, kMaxCallers);
  if (callers == 1) return Skipped("it takes one batch at a time (max_concurrent_batches)");
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kBehaviourPlans);
  const auto expected = session.AskAbout(session.problem(), plans);
  if (!expected.ok()) return Failed("EstimateBatch", expected.status());
  std::vector<std::future<std::string>> threads(static_cast<std::size_t>(callers));
  for (auto& thread : threads) {
    thread =
        std::async(std::launch::async, [&] { return AskBesideOthers(session, plans, *expected); });
  }
  std::string wrong;
  for (auto& thread : threads) {
    if (std::string text = thread.get(); !text.empty()) wrong = std::move(text);
  }
  return wrong.empty() ? Passed(fmt::format("{} callers", callers))
                       : Failed(fmt::format("{} callers at once: {}", callers, wrong));
}

Finding CheckThroughput(ConformanceSession& session) {
  const auto context = session.Open(session.problem());
  if (!context.ok()) return Failed("OpenContext", context.status());
  const int stated = session.info().max_batch_size;
  const int size =
      stated > 0 ? std::min(stated, static_cast<int>(kBatchSize)) : static_cast<int>(kBatchSize);
  const wire::Candidates batch = Many(session, size);
  const Clock::time_point start = Clock::now();
  std::int64_t count = 0;
  std::chrono::duration<double> spent(0);
  const double promised = session.info().candidates_per_second;
  const double least = promised > 0 ? promised : kLeastRate;
  double rate = 0;
  while (spent < kLeastRateTime || (rate < least && spent < kMaxRateTime)) {
    const auto answer = session.AskRaw(*context, batch);
    if (!answer.ok()) return Failed("EstimateBatch", answer.status());
    count += size;
    spent = Clock::now() - start;
    rate = static_cast<double>(count) / spent.count();
  }
  const std::string seen =
      fmt::format("{:.0f} candidates a second in batches of {}; must be {:.0f}", rate, size, least);
  return rate >= least ? Passed(seen) : Failed(seen);
}

// This check comes last: a model that cannot be started again cannot be asked anything more.
Finding CheckRestarts(ConformanceSession& session) {
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kContextPlans);
  const auto before = session.AskAbout(session.problem(), plans);
  if (!before.ok()) return Failed("EstimateBatch", before.status());
  for (int i = 1; i <= kRestarts; ++i) {
    if (const absl::Status started = session.Restart(); !started.ok()) {
      return Failed(fmt::format("restart {} of {}", i, kRestarts), started);
    }
    const auto after = session.AskAbout(session.problem(), plans);
    if (!after.ok()) return Failed("EstimateBatch after a restart", after.status());
    if (!std::ranges::equal(*before, *after, &AreAlike)) {
      return Failed("a restart changes the answers");
    }
  }
  return Passed(fmt::format("{} restarts", kRestarts));
}

}  // namespace

std::vector<ConformanceCheck> BehaviourChecks() {
  return {
      {"determinism", "times are the same to the last bit in another order, batch or process",
       &CheckDeterminism},
      {"batches", "empty, single and largest batches are answered, larger ones are refused",
       &CheckBatches},
      {"malformed",
       "malformed batches and questions are refused; a malformed candidate does not affect others",
       &CheckMalformed},
      {"contexts", "contexts do not affect each other; one that is not open is NOT_FOUND",
       &CheckContexts},
      {"cancellation",
       "after calls that were cancelled or missed their deadline it answers within 2 s, as before",
       &CheckCancellation},
      {"concurrency",
       "callers at once, as many as it allows but at most four, get the same answers",
       &CheckConcurrency},
      {"leaks", "closed contexts leave at most 64 MiB of memory in use", &CheckLeaks},
      {"throughput", "it estimates as many candidates a second as it promises, or 20,000",
       &CheckThroughput},
      {"restarts", "it can be started again and again, and answers as before", &CheckRestarts}};
}

}  // namespace meshwright
