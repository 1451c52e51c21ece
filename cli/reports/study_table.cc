#include "cli/reports/study_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "cli/reports/progress_line.h"
#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

// Shows the best step time, which is absent until the study has found a plan.
std::string StepTime(const v1::Study& study) {
  return study.best_step_time_seconds() > 0 ? SecondsText(study.best_step_time_seconds()) : "-";
}

std::string Gain(const v1::Study& study) {
  const bool has_gain = study.best_step_time_seconds() > 0;
  return has_gain ? PercentText(study.gain_over_baseline_ratio()) : "-";
}

std::string JobWords(const v1::Attempt& attempt) {
  std::string words = attempt.launcher();
  if (!attempt.external_id().empty()) words += " " + attempt.external_id();
  if (!attempt.nodes().empty()) words += fmt::format(" on {}", fmt::join(attempt.nodes(), ","));
  return words;
}

// Shows an attempt's state, for example "running: measuring, 12 steps", as far as its harness
// tells.
std::string StateWords(const v1::Attempt& attempt) {
  if (attempt.harness_state().empty()) return attempt.state();
  return fmt::format("{}: {}, {} steps", attempt.state(), attempt.harness_state(),
                     attempt.harness_step_count());
}

std::string LogText(const v1::Attempt& attempt) {
  std::string text;
  const auto add = [&](std::string_view which, const std::string& log) {
    if (log.empty()) return;
    text += fmt::format("\n{} of {}'s output\n{}", which, attempt.id(), log);
    if (!log.ends_with('\n')) text += '\n';
  };
  add("beginning", attempt.log_head());
  add("end", attempt.log_tail());
  return text;
}

// Shows how well an attempt was measured, if the harness has told.
std::string QualityText(const v1::Attempt& attempt) {
  std::vector<std::string> parts;
  if (attempt.has_step_count()) parts.push_back(fmt::format("{} steps", attempt.step_count()));
  if (attempt.has_step_time_low_seconds() && attempt.has_step_time_high_seconds()) {
    parts.push_back(fmt::format("{} to {}", SecondsText(attempt.step_time_low_seconds()),
                                SecondsText(attempt.step_time_high_seconds())));
  }
  if (attempt.has_spread_ratio()) {
    parts.push_back(fmt::format("spread {}", PercentText(attempt.spread_ratio())));
  }
  for (const std::string& reason : attempt.suspect_reasons()) parts.push_back("doubt: " + reason);
  if (!attempt.environment().empty()) parts.push_back("environment " + attempt.environment());
  if (parts.empty()) return "";
  return fmt::format("{}: {}\n", attempt.id(), fmt::join(parts, "; "));
}

// Returns how to ask for the page after this one; empty if it is the last.
std::string NextPage(const std::string& token) {
  return token.empty() ? "" : fmt::format("more: --page-token {}\n", token);
}

}  // namespace

std::string StudyTable(const v1::ListStudiesResponse& studies, int columns) {
  if (studies.studies().empty()) return "no studies\n";
  Table table({{.title = "study"},
               {.title = "state"},
               {.title = "outcome"},
               {.title = "model"},
               {.title = "cluster"},
               {.title = "devices", .align = Align::kRight},
               {.title = "step time", .align = Align::kRight},
               {.title = "gain", .align = Align::kRight},
               {.title = "created"}});
  for (const v1::Study& study : studies.studies()) {
    const std::string name =
        study.display_name().empty() ? study.id() : study.id() + " " + study.display_name();
    table.AddRow({name, study.state(), study.outcome().empty() ? "-" : study.outcome(),
                  study.model_name(), study.cluster_name(), CountText(study.device_count()),
                  StepTime(study), Gain(study), study.create_time()});
  }
  return table.Text("", columns) + NextPage(studies.next_page_token());
}

std::string PlanTable(const v1::ListPlansResponse& plans, int columns) {
  if (plans.plans().empty()) return "no plans\n";
  Table table({{.title = "rank", .align = Align::kRight},
               {.title = "state"},
               {.title = "step time", .align = Align::kRight},
               {.title = "memory GiB", .align = Align::kRight},
               {.title = "plan"}});
  for (const v1::RankedPlan& plan : plans.plans()) {
    const v1::Estimate& estimate = plan.estimate();
    table.AddRow({plan.rank() == 0 ? "baseline" : fmt::format("{}", plan.rank()), plan.state(),
                  SecondsText(estimate.step_time_seconds()),
                  GibText(estimate.reserved_memory_bytes()), PlanWords(plan.plan())});
  }
  return table.Text("", columns) + NextPage(plans.next_page_token());
}

std::string TrialTable(const v1::ListTrialsResponse& trials, int columns) {
  if (trials.trials().empty()) return "no trials\n";
  Table table({{.title = "trial", .align = Align::kRight},
               {.title = "purpose"},
               {.title = "state"},
               {.title = "outcome"},
               {.title = "step time", .align = Align::kRight},
               {.title = "expected", .align = Align::kRight},
               {.title = "device time", .align = Align::kRight},
               {.title = "started"},
               {.title = "plan"}});
  for (const v1::Trial& trial : trials.trials()) {
    const bool has_run = trial.step_time_seconds() > 0;
    table.AddRow({fmt::format("{}", trial.number()), trial.purpose(), trial.state(),
                  EndWords(trial.outcome(), trial.failure_class()),
                  has_run ? SecondsText(trial.step_time_seconds()) : "-",
                  SecondsText(trial.expected_step_time_seconds()),
                  SecondsText(trial.device_seconds()), trial.start_time(),
                  PlanWords(trial.plan())});
  }
  return table.Text("", columns) + NextPage(trials.next_page_token());
}

std::string AttemptTable(const v1::ListAttemptsResponse& attempts, int columns) {
  if (attempts.attempts().empty()) return "no attempts\n";
  Table table({{.title = "trial", .align = Align::kRight},
               {.title = "attempt", .align = Align::kRight},
               {.title = "job"},
               {.title = "state"},
               {.title = "outcome"},
               {.title = "device time", .align = Align::kRight},
               {.title = "created"},
               {.title = "why"}});
  std::string qualities;
  std::string logs;
  for (const v1::Attempt& attempt : attempts.attempts()) {
    table.AddRow({fmt::format("{}", attempt.trial_number()), fmt::format("{}", attempt.number()),
                  JobWords(attempt), StateWords(attempt),
                  EndWords(attempt.outcome(), attempt.failure_class()),
                  SecondsText(attempt.device_seconds()), attempt.create_time(),
                  attempt.message().empty() ? "-" : attempt.message()});
    qualities += QualityText(attempt);
    logs += LogText(attempt);
  }
  return table.Text("", columns) + qualities + logs;
}

std::string DeletionText(const v1::DeleteStudyResponse& deleted) {
  return fmt::format("deleted study {} with {} trials; {} measurements retracted\n",
                     deleted.study_id(), deleted.trial_count(),
                     deleted.retracted_measurement_count());
}

std::string EventLine(const v1::WatchStudyResponse& event) {
  std::string text = fmt::format("{} {}", event.time(), event.kind());
  if (!event.state().empty()) text += " " + event.state();
  if (event.has_progress()) text += " " + ProgressText(event.progress());
  return text + "\n";
}

}  // namespace meshwright
