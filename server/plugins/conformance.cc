#include "server/plugins/conformance.h"

#include <algorithm>

#include "server/plugins/conformance_session.h"

namespace meshwright {
namespace {

constexpr std::string_view kHandshake = "handshake";
constexpr std::string_view kHandshakeWhat =
    "starts and serves within 10 s, is healthy, speaks protocol 1, states its name and version";

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

Finding CheckHandshake(ConformanceSession& session) {
  if (absl::Status started = session.Restart(); !started.ok()) return Failed(TextOf(started));
  const ModelInfo& info = session.info();
  const bool is_name =
      info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!is_name) return Failed("its name '" + info.name + "' is not lower-case letters, digits, -");
  if (info.chips.empty()) return Failed("it names no chips");
  if (info.precisions.empty()) return Failed("it names no precisions");
  return Passed(info.name + " " + info.version);
}

}  // namespace

std::string_view Word(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kPassed:
      return "passed";
    case CheckOutcome::kFailed:
      return "failed";
    case CheckOutcome::kSkipped:
      break;
  }
  return "skipped";
}

bool IsPassed(const ConformanceReport& report) {
  return std::ranges::none_of(report.checks, [](const CheckResult& check) {
    return check.outcome == CheckOutcome::kFailed;
  });
}

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
  return ResolveProblem(question, knowledge);
}

ConformanceReport CheckConformance(const ProcessSpec& model, const Problem& problem) {
  ConformanceSession session(model, problem);
  ConformanceReport report;
  const auto add = [&](std::string_view name, std::string_view what, Finding finding) {
    report.checks.push_back({.name = std::string(name),
                             .what = std::string(what),
                             .outcome = finding.outcome,
                             .detail = std::move(finding.detail)});
  };
  add(kHandshake, kHandshakeWhat, CheckHandshake(session));
  if (!session.is_running()) return report;  // nothing more can be asked
  report.info = session.info();
  report.isolation = session.process().isolation();
  std::vector<ConformanceCheck> checks = AnswerChecks();
  std::ranges::copy(BehaviourChecks(), std::back_inserter(checks));
  std::ranges::copy(OptionalChecks(), std::back_inserter(checks));
  for (const ConformanceCheck& check : checks) {
    // A model that the last check brought down fails that one, and not the next.
    if (session.process().has_ended() || !session.Ping().ok()) {
      report.log_tail = session.process().log_tail();
      if (const absl::Status again = session.Restart(); !again.ok()) {
        add(check.name, check.what, Failed("it cannot be started again", again));
        break;
      }
    }
    Finding finding = check.run(session);
    if (session.process().WaitForEnd(std::chrono::milliseconds(20))) {
      finding =
          Failed("the model ended, " + session.process().how_it_ended() + "; " + finding.detail);
    }
    add(check.name, check.what, std::move(finding));
  }
  if (report.log_tail.empty() && session.is_running()) {
    report.log_tail = session.process().log_tail();
  }
  return report;
}

}  // namespace meshwright
