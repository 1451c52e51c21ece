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

// Who places the pods of a job all at once or not at all. Without, two jobs that are half placed
// can wait for each other for ever.
enum class GangScheduler { kOwn, kKueue };
template <>
std::span<const ChoiceWord<GangScheduler>> Choices<GangScheduler>();

// What a status of an object means: the first row that holds.
struct KubernetesStatusRow {
  std::string condition = {};  // the type of a condition that must be True; empty: see path
  std::string reason = {};     // that the condition must have; empty: any
  std::string path = {};       // JSON pointer to a text
  std::string value = {};      // that stands there
  JobState state = JobState::kPending;
  std::optional<JobEnd> end = {};  // with kEnded
};

struct KubernetesKind {
  std::string path = {};    // "/apis/batch/v1"
  std::string plural = {};  // "jobs"
  std::string object = {};  // JSON with placeholders
};

// A kind of job as data (docs/kubernetes.md): the object with placeholders, and how it is read.
struct KubernetesTemplate {
  KubernetesKind job = {};
  // Of all jobs together, such as a headless service: made when the namespace has none of the name,
  // and never deleted.
  std::vector<KubernetesKind> shared = {};
  GangScheduler gang = GangScheduler::kKueue;
  std::string pod_label = {};       // whose value is the job's name
  std::string rank_variable = {};   // in which a pod finds its number
  std::string master_address = {};  // of the first pod; may hold ${attempt_id}
  std::vector<KubernetesStatusRow> status = {};
};

// What may stand in an object as ${word}.
std::span<const std::string_view> KubernetesPlaceholders();

// INVALID_ARGUMENT that names every bad field.
absl::StatusOr<KubernetesTemplate> ParseKubernetesTemplate(const std::string& text);

// The text of one of ours; then the names of all: "job, mpijob, ...".
std::optional<std::string_view> FindKubernetesTemplate(std::string_view name);
std::string KubernetesTemplateNames();

// One of ours by its name, or a file by its absolute path.
absl::StatusOr<KubernetesTemplate> LoadKubernetesTemplate(const std::string& name_or_path);

}  // namespace meshwright
