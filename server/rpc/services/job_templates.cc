#include "server/rpc/services/job_templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "proto/json/json.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

using google::protobuf::FieldDescriptor;

constexpr std::string_view kJob = "trials.job";
constexpr std::string_view kSuffix = ".json";
constexpr std::size_t kLongestName = 63;

// The fields that a request may state beside the name of a template. None of them holds a path, a
// command, a variable or an address.
constexpr std::string_view kStatable[] = {"processes_per_node", "time_limit_seconds",
                                          "queue_limit_seconds", "metrics"};

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
}

bool MayOthersWrite(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

FieldViolation Mistake(const std::string& where, std::string what) {
  return {.field = where, .description = std::move(what)};
}

// Reads a template and adds its mistakes, also those that a request with it would have.
v1::JobTemplate ReadTemplate(const std::string& path, std::vector<FieldViolation>& found) {
  v1::TrialRequest trials;
  v1::JobTemplate& job = *trials.mutable_job();
  std::ifstream file(path, std::ios::binary);
  const std::string text = RestOf(file);
  if (file.bad() || !file.is_open()) {
    found.push_back(Mistake(path, "cannot be read"));
    return job;
  }
  std::vector<FieldViolation> own = ParseJson(text, "", job);
  if (own.empty()) {
    TrialRequest read;
    ReadTrialJob(MessageReader(trials, "", own), read);
  }
  constexpr std::string_view kPrefix = "job.";
  for (FieldViolation& mistake : own) {
    const bool is_inside = mistake.field.starts_with(kPrefix);
    const std::string field = is_inside ? mistake.field.substr(kPrefix.size()) : mistake.field;
    found.push_back(Mistake(field.empty() ? path : fmt::format("{}: {}", path, field),
                            std::move(mistake.description)));
  }
  return job;
}

absl::StatusOr<std::vector<std::filesystem::path>> FilesIn(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == kSuffix) files.push_back(entry->path());
  }
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("the folder of job templates, {}: {}", folder, error.message()));
  }
  std::ranges::sort(files);
  return files;
}

std::string At(std::string_view field) { return fmt::format("{}.{}", kJob, field); }

// Adds a mistake for each stated field that only a template may state.
void CheckStated(const v1::JobTemplate& job, std::vector<FieldViolation>& found) {
  std::vector<const FieldDescriptor*> fields;
  job.GetReflection()->ListFields(job, &fields);
  for (const FieldDescriptor* const field : fields) {
    const std::string& name = field->name();
    if (name == "template_name" || std::ranges::find(kStatable, name) != std::end(kStatable)) {
      continue;
    }
    found.push_back(Mistake(At(name), fmt::format("stated; a server takes it only from its own "
                                                  "templates; a request may state {}",
                                                  fmt::join(kStatable, ", "))));
  }
}

// Adds a mistake if the stated limit is above the template's; each is absent if it is not stated.
void CheckLimit(std::string_view field, std::optional<double> stated, std::optional<double> limit,
                std::vector<FieldViolation>& found) {
  if (!stated.has_value() || !limit.has_value() || *stated <= *limit) return;
  found.push_back(
      Mistake(At(field), fmt::format("{}; must be at most {}, the template's", *stated, *limit)));
}

std::optional<double> TimeLimitOf(const v1::JobTemplate& job) {
  if (!job.has_time_limit_seconds()) return std::nullopt;
  return job.time_limit_seconds();
}

std::optional<double> QueueLimitOf(const v1::JobTemplate& job) {
  if (!job.has_queue_limit_seconds()) return std::nullopt;
  return job.queue_limit_seconds();
}

// Adds a mistake unless the trials state a budget of device seconds within the limit.
void CheckDeviceSeconds(const v1::TrialRequest& trials, double limit,
                        std::vector<FieldViolation>& found) {
  if (trials.has_max_device_seconds() && trials.max_device_seconds() <= limit) return;
  const std::string stated =
      trials.has_max_device_seconds() ? fmt::format("{}", trials.max_device_seconds()) : "missing";
  found.push_back(Mistake("trials.max_device_seconds",
                          fmt::format("{}; must be at most {}, which this server allows for the "
                                      "jobs of a study",
                                      stated, limit)));
}

}  // namespace

absl::StatusOr<JobTemplates> JobTemplates::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> files, FilesIn(folder));
  std::vector<FieldViolation> found;
  constexpr std::string_view kWritable = "others than its owner may write it; chmod go-w";
  if (MayOthersWrite(folder)) found.push_back(Mistake(folder, std::string(kWritable)));
  JobTemplates templates;
  for (const std::filesystem::path& path : files) {
    const std::string name = path.stem().string();
    if (!IsName(name)) {
      found.push_back(Mistake(path.string(), fmt::format("the name must be 1 to {} of a-z, 0-9 and "
                                                         "-",
                                                         kLongestName)));
    }
    if (MayOthersWrite(path.string())) {
      found.push_back(Mistake(path.string(), std::string(kWritable)));
    }
    templates.by_name_[name] = ReadTemplate(path.string(), found);
  }
  if (!found.empty()) return InvalidFields(found);
  return templates;
}

std::vector<std::string> JobTemplates::names() const {
  std::vector<std::string> names;
  for (const auto& [name, job] : by_name_) names.push_back(name);
  return names;
}

void JobTemplates::Resolve(v1::JobTemplate& job, std::vector<FieldViolation>& found) const {
  const std::size_t earlier = found.size();
  const auto named = by_name_.find(job.template_name());
  const std::string known = by_name_.empty()
                                ? "this server has none; its operator gives it some with "
                                  "--job-templates"
                                : fmt::format("must be one of {}", fmt::join(names(), ", "));
  if (!job.has_template_name()) {
    found.push_back(
        Mistake(At("template_name"),
                fmt::format("missing; a server runs jobs only by its own templates: {}", known)));
  } else if (named == by_name_.end()) {
    found.push_back(Mistake(At("template_name"),
                            fmt::format("{}; {}", QuotedText(job.template_name()), known)));
  }
  CheckStated(job, found);
  if (named != by_name_.end()) {
    const v1::JobTemplate& own = named->second;
    CheckLimit("time_limit_seconds", TimeLimitOf(job), TimeLimitOf(own), found);
    CheckLimit("queue_limit_seconds", QueueLimitOf(job), QueueLimitOf(own), found);
  }
  if (found.size() > earlier) return;
  v1::JobTemplate resolved = named->second;
  job.clear_template_name();
  if (job.metrics().fields_size() > 0) resolved.mutable_metrics()->clear_fields();
  resolved.MergeFrom(job);
  job = std::move(resolved);
}

void KnownTemplates::Replace(JobTemplates templates) {
  auto next = std::make_shared<const JobTemplates>(std::move(templates));
  const std::lock_guard lock(mutex_);
  templates_ = std::move(next);
}

std::shared_ptr<const JobTemplates> KnownTemplates::Current() const {
  const std::lock_guard lock(mutex_);
  return templates_;
}

absl::Status ResolveJob(const JobRules& rules, v1::CreateStudyRequest& request) {
  if (!request.question().trials().has_job()) return absl::OkStatus();
  v1::TrialRequest& trials = *request.mutable_question()->mutable_trials();
  std::vector<FieldViolation> found;
  if (rules.study_device_seconds.has_value()) {
    CheckDeviceSeconds(trials, *rules.study_device_seconds, found);
  }
  v1::JobTemplate job = trials.job();
  if (!rules.takes_stated_jobs || job.has_template_name()) {
    rules.templates->Current()->Resolve(job, found);
  }
  if (!found.empty()) return InvalidFields(found);
  *trials.mutable_job() = std::move(job);
  return absl::OkStatus();
}

}  // namespace meshwright
