#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "meshwright/v1/trial.pb.h"
#include "search_space/base/status.h"

namespace meshwright {

// The job templates of a server by their names. Paths, commands and the access to an engine come
// from them, never from a request.
class JobTemplates {
 public:
  // Reads a folder in which each NAME.json is a JobTemplate. INVALID_ARGUMENT names every mistake
  // of every file, a name with other characters than a-z, 0-9 and "-", and a file or folder that
  // others than its owner may write.
  static absl::StatusOr<JobTemplates> Load(const std::string& folder);

  [[nodiscard]] std::vector<std::string> names() const;

  // Puts the template that the job names in the place of the name, with the limits and metrics that
  // the job states. Otherwise it leaves the job as it is, and adds to `found` every other field
  // that the job states, an unknown name with those that there are, and limits above those that the
  // template states.
  void Resolve(v1::JobTemplate& job, std::vector<FieldViolation>& found) const;

 private:
  std::map<std::string, v1::JobTemplate> by_name_;
};

// The templates of a server, which may be replaced while calls use those of before.
class KnownTemplates {
 public:
  explicit KnownTemplates(JobTemplates templates = {})
      : templates_(std::make_shared<const JobTemplates>(std::move(templates))) {}
  void Replace(JobTemplates templates);
  [[nodiscard]] std::shared_ptr<const JobTemplates> Current() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const JobTemplates> templates_;
};

// The jobs that requests of a server may ask for.
struct JobRules {
  std::shared_ptr<KnownTemplates> templates = std::make_shared<KnownTemplates>();
  // True: a job that names no template is taken as it is stated, because the server runs none, or
  // because its operator allows it.
  bool takes_stated_jobs = false;
  // Devices x seconds that the jobs of one study may take; absent: no limit.
  std::optional<double> study_device_seconds = {};
};

// Resolves the job of a request to create a study, if it has one. INVALID_ARGUMENT also names a
// budget that is above the rules' limit, or missing though there is one.
absl::Status ResolveJob(const JobRules& rules, v1::CreateStudyRequest& request);

}  // namespace meshwright
