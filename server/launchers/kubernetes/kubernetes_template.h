#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/choices.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

// The scheduler that places the pods of a job all at once or not at all. Without one, two jobs that
// are half placed can wait for each other for ever.
enum class GangScheduler { kOwn, kKueue };
template <>
std::span<const ChoiceWord<GangScheduler>> Choices<GangScheduler>();

// The meaning of a status of an object. The first row that holds counts.
struct KubernetesStatusRow {
  std::string condition = {};  // type of a condition that must be True; empty: see path
  std::string reason = {};     // reason that the condition must have; empty: any
  std::string path = {};       // JSON pointer to a text
  std::string value = {};      // the text that must stand there
  JobState state = JobState::kPending;
  std::optional<JobEnd> end = {};  // with kEnded
};

struct KubernetesKind {
  std::string path = {};    // such as "/apis/batch/v1"
  std::string plural = {};  // such as "jobs"
  std::string object = {};  // JSON with placeholders
};

// A kind of job as data (docs/kubernetes/templates.md): the object with placeholders, and how to
// read it.
struct KubernetesTemplate {
  KubernetesKind job = {};
  // Objects that all jobs share, such as a headless service. They are made if the namespace has
  // none of that name, and never deleted.
  std::vector<KubernetesKind> shared = {};
  GangScheduler gang = GangScheduler::kKueue;
  std::string pod_label = {};       // the label that holds the job's name
  std::string rank_variable = {};   // the variable in which a pod finds its number
  std::string master_address = {};  // address of the first pod; may hold ${attempt_id}
  std::vector<KubernetesStatusRow> status = {};
};

// Returns the words that may stand in an object as ${word}.
std::span<const std::string_view> KubernetesPlaceholders();

// INVALID_ARGUMENT names every bad field.
absl::StatusOr<KubernetesTemplate> ParseKubernetesTemplate(const std::string& text);

// Return the text of one of our templates, and the names of all: "job, mpijob, ...".
std::optional<std::string_view> FindKubernetesTemplate(std::string_view name);
std::string KubernetesTemplateNames();

// Loads one of our templates by its name, or a file by its absolute path.
absl::StatusOr<KubernetesTemplate> LoadKubernetesTemplate(const std::string& name_or_path);

}  // namespace meshwright
