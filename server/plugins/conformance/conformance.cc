#include "server/plugins/conformance/conformance.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/plugins/protocol/protocol.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

constexpr std::string_view kHandshake = "handshake";
constexpr std::string_view kHandshakeWhat =
    "starts and serves within 10 s, is healthy, states its name, chips and precisions";

// The least memory of the question's devices. The training states of its plans take 6.7 GB per
// device and more, and conformance_memory.cc knows them. On a smaller chip no plan would be OK, and
// nothing would be checked.
constexpr Bytes kLeastMemory = GiB(32);

Finding CheckHandshake(ConformanceSession& session) {
  if (const absl::Status started = session.Restart(); !started.ok()) {
    return Failed(std::string(started.message()));
  }
  const ModelInfo& info = session.info();
  if (info.name.empty()) return Failed("it states no name");
  const bool is_name =
      info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!is_name) return Failed("its name '" + info.name + "' is not lower-case letters, digits, -");
  if (info.chips.empty()) return Failed("it names no chips");
  if (info.precisions.empty()) return Failed("it names no precisions");
  return Passed(info.name);
}

// Runs a check and looks after the model: a check fails if the model ends during it, so that the
// next one does not.
Finding RunCheck(const ConformanceCheck& check, ConformanceSession& session) {
  // a crash closes the socket a moment before the process ends
  constexpr std::chrono::milliseconds kEnd(20);
  constexpr std::chrono::milliseconds kEndOfSilent(1000);
  if (!session.Ping().ok()) {
    if (const absl::Status again = session.Restart(); !again.ok()) {
      return Failed("it cannot be started again", again);
    }
  }
  Finding finding = check.run(session);
  if (!session.is_running()) return finding;
  const absl::Status after = session.Ping();
  const bool may_have_ended = !after.ok() || finding.outcome == CheckOutcome::kFailed;
  // A model that does not answer is given a second to be found dead; one that answers has not
  // ended.
  if (may_have_ended && session.process().WaitForEnd(after.ok() ? kEnd : kEndOfSilent)) {
    return Failed("the model ended, " + session.process().how_it_ended() + "; " + finding.detail);
  }
  if (after.ok() || finding.outcome == CheckOutcome::kFailed) return finding;
  return Failed("the model does not answer after this check", after);
}

std::vector<ConformanceCheck> AllChecks() {
  std::vector<ConformanceCheck> all;
  for (const auto& checks :
       {VersionChecks(), AnswerChecks(), MemoryChecks(), OptionalChecks(), BehaviourChecks()}) {
    std::ranges::copy(checks, std::back_inserter(all));
  }
  return all;
}

}  // namespace

Question ConformanceQuestion(std::string_view chip) {
  return {
      .model = {.name = "conformance-7b",
                .layer_count = 32,
                .hidden_size = 4096,
                .ffn_hidden_size = 11008,
                .attention_head_count = 32,
                .kv_head_count = 32,
                .head_dim = 128,
                .vocab_size = 32000},
      .workload = {.sequence_length = 2048, .global_batch_size = 512},
      .cluster = {
          .name = "conformance",
          .pools = {
              {.name = "a", .chip = std::string(chip), .node_count = 2, .devices_per_node = 8}}}};
}

absl::StatusOr<Problem> ConformanceProblem(std::string_view chip, const ModelInfo& model,
                                           const Knowledge& knowledge) {
  Question question = ConformanceQuestion(chip);
  const bool has_bf16 = std::ranges::find(model.precisions, "bf16") != model.precisions.end();
  if (!has_bf16 && !model.precisions.empty()) {
    question.workload.precision = ParseChoice<Precision>(model.precisions.front());
  }
  ASSIGN_OR_RETURN(Problem problem, ResolveProblem(question, knowledge));
  Bytes& memory = problem.cluster.pools.front().memory_capacity;
  memory = std::max(memory, kLeastMemory);
  return problem;
}

ConformanceReport CheckConformance(const ProcessSpec& model, const Problem& problem,
                                   std::chrono::milliseconds start_limit) {
  ConformanceSession session(model, problem, start_limit);
  ConformanceReport report;
  const auto add = [&](std::string_view name, std::string_view what, Finding finding) {
    report.checks.push_back({.name = std::string(name),
                             .what = std::string(what),
                             .outcome = finding.outcome,
                             .detail = std::move(finding.detail)});
  };
  add(kHandshake, kHandshakeWhat, CheckHandshake(session));
  report.isolation = session.isolation();
  if (!session.is_running()) return report;  // nothing more can be asked
  report.info = session.info();
  for (const ConformanceCheck& check : AllChecks()) {
    add(check.name, check.what, RunCheck(check, session));
    const bool has_failed = report.checks.back().outcome == CheckOutcome::kFailed;
    // The log is taken before another process takes the model's place.
    if (has_failed && report.log_tail.empty()) report.log_tail = session.log_tail();
    // It cannot be started again, or its answers mean something else.
    if (!session.is_running() || session.info().protocol_major != kProtocolMajor) return report;
  }
  if (report.log_tail.empty()) report.log_tail = session.log_tail();
  return report;
}

}  // namespace meshwright
