#include "server/launchers/kubernetes/kubernetes_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "search_space/base/status.h"
#include "server/launchers/kubernetes/kubernetes_object.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {
namespace {

constexpr char kCore[] = "/api/v1";
constexpr char kKueue[] = "/apis/kueue.x-k8s.io/v1beta1";
// Deletes the pods before the job, so that a job that is gone has left nothing behind.
constexpr char kDeletion[] =
    R"({"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"})";

constexpr int kHttpNotFound = 404;
constexpr int kHttpConflict = 409;

bool IsSuccess(int status) { return status >= 200 && status < 300; }

// Returns true for answers after which the same request may succeed later.
bool IsTransient(int status) { return status == 408 || status == 429 || status >= 500; }

absl::Status Failure(const std::string& what, const HttpResponse& response) {
  const std::string message =
      fmt::format("{}: {} ({})", what, MessageOf(response.body), response.status);
  return IsTransient(response.status) ? absl::UnavailableError(message)
                                      : absl::FailedPreconditionError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<KubernetesEngine>> KubernetesEngine::Open(
    KubernetesOptions options) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(KubernetesTemplate job_template, LoadKubernetesTemplate(options.job_template));
  return std::make_unique<KubernetesEngine>(std::move(options), std::move(job_template));
}

absl::StatusOr<HttpResponse> KubernetesEngine::Send(const std::string& method,
                                                    const std::string& path,
                                                    const std::string& body) const {
  return SendHttp({.method = method, .url = options_.server + path, .body = body},
                  {.token_file = options_.token_file,
                   .ca_file = options_.ca_file,
                   .limit = options_.request_limit});
}

std::string KubernetesEngine::PathOf(const KubernetesKind& kind) const {
  return fmt::format("{}/namespaces/{}/{}", kind.path, options_.name_space, kind.plural);
}

absl::Status KubernetesEngine::MakeShared(const JobSpec& spec) const {
  for (const KubernetesKind& kind : template_.shared) {
    ASSIGN_OR_RETURN(const std::string object, FillObject(kind.object, template_, options_, spec));
    ASSIGN_OR_RETURN(const HttpResponse response, Send("POST", PathOf(kind), object));
    if (!IsSuccess(response.status) && response.status != kHttpConflict) {
      return Failure("create " + kind.plural, response);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> KubernetesEngine::Adopt(const JobSpec& spec) const {
  const std::string what = fmt::format("get {} {}", template_.job.plural, spec.attempt_id);
  ASSIGN_OR_RETURN(const HttpResponse response,
                   Send("GET", PathOf(template_.job) + "/" + spec.attempt_id, ""));
  if (response.status == kHttpNotFound) {
    return absl::UnavailableError(what + ": it was deleted in the meantime");
  }
  if (!IsSuccess(response.status)) return Failure(what, response);
  if (AttemptOf(response.body) == spec.attempt_id) return UidOf(response.body);
  return absl::FailedPreconditionError(
      fmt::format("{}: an object of this name exists that lacks the label {}={}", what,
                  kAttemptLabel, spec.attempt_id));
}

absl::StatusOr<std::string> KubernetesEngine::Submit(const JobSpec& spec) {
  RETURN_IF_ERROR(CheckJob(template_, options_, spec));
  ASSIGN_OR_RETURN(const std::string object, JobObject(template_, options_, spec));
  if (spec.node_count > 1) RETURN_IF_ERROR(MakeShared(spec));
  ASSIGN_OR_RETURN(const HttpResponse response, Send("POST", PathOf(template_.job), object));
  std::string uid = UidOf(response.body);
  if (response.status == kHttpConflict) {
    ASSIGN_OR_RETURN(uid, Adopt(spec));
  } else if (!IsSuccess(response.status)) {
    return Failure("create " + template_.job.plural, response);
  }
  seen_.emplace(spec.attempt_id, Seen{.status = {.external_id = uid, .state = JobState::kPending}});
  return uid;
}

absl::StatusOr<std::string> KubernetesEngine::List(const std::string& path,
                                                   const std::string& label,
                                                   const std::vector<std::string>& values) const {
  const std::string selector = fmt::format("{} in ({})", label, fmt::join(values, ","));
  ASSIGN_OR_RETURN(HttpResponse response,
                   Send("GET", path + "?labelSelector=" + UrlEncoded(selector), ""));
  if (IsSuccess(response.status)) return std::move(response.body);
  // This includes a forbidden list, which says nothing about the jobs.
  return absl::UnavailableError(
      fmt::format("list {}: {} ({})", path, MessageOf(response.body), response.status));
}

absl::StatusOr<KubernetesEngine::Lists> KubernetesEngine::ListAll(
    const std::vector<std::string>& attempt_ids) const {
  Lists lists;
  ASSIGN_OR_RETURN(const std::string jobs,
                   List(PathOf(template_.job), std::string(kAttemptLabel), attempt_ids));
  ASSIGN_OR_RETURN(lists.jobs, ParseJobs(jobs, template_));
  if (lists.jobs.empty()) return lists;
  ASSIGN_OR_RETURN(const std::string pods, List(PathOf({.path = kCore, .plural = "pods"}),
                                                template_.pod_label, attempt_ids));
  ASSIGN_OR_RETURN(lists.pods, ParsePods(pods, template_.pod_label));
  if (!UsesKueue(template_, options_)) return lists;
  std::vector<std::string> uids;
  for (const KubernetesJob& job : lists.jobs) uids.push_back(job.uid);
  ASSIGN_OR_RETURN(
      const std::string workloads,
      List(PathOf({.path = kKueue, .plural = "workloads"}), std::string(kJobUidLabel), uids));
  ASSIGN_OR_RETURN(lists.workloads, ParseWorkloads(workloads));
  return lists;
}

absl::StatusOr<std::vector<JobStatus>> KubernetesEngine::Poll(std::span<const JobHandle> jobs) {
  // A job that has ended is not asked about again.
  std::vector<std::string> asked;
  for (const JobHandle& job : jobs) {
    const auto seen = seen_.find(job.attempt_id);
    if (seen == seen_.end() || seen->second.status.state != JobState::kEnded) {
      asked.push_back(job.attempt_id);
    }
  }
  if (!asked.empty()) RETURN_IF_ERROR(Look(asked));
  std::vector<JobStatus> statuses;
  for (const JobHandle& job : jobs) {
    const auto seen = seen_.find(job.attempt_id);
    statuses.push_back(seen == seen_.end() ? JobStatus() : seen->second.status);
  }
  return statuses;
}

absl::Status KubernetesEngine::Look(const std::vector<std::string>& attempt_ids) {
  ASSIGN_OR_RETURN(const Lists lists, ListAll(attempt_ids));
  for (const std::string& attempt_id : attempt_ids) {
    const auto job = std::ranges::find(lists.jobs, attempt_id, &KubernetesJob::attempt_id);
    if (job == lists.jobs.end()) {
      NoteGone(attempt_id);
    } else {
      RETURN_IF_ERROR(Note(*job, lists));
    }
  }
  return absl::OkStatus();
}

absl::Status KubernetesEngine::Note(const KubernetesJob& job, const Lists& lists) {
  std::vector<KubernetesPod> pods;
  std::ranges::copy_if(lists.pods, std::back_inserter(pods), [&job](const KubernetesPod& pod) {
    return pod.attempt_id == job.attempt_id;
  });
  const auto workload = std::ranges::find(lists.workloads, job.uid, &KubernetesWorkload::job_uid);
  KubernetesView view = ViewOf(job, pods, workload == lists.workloads.end() ? nullptr : &*workload);
  Seen& seen = seen_[job.attempt_id];
  // Pods that did not fail are deleted when the job ends.
  if (view.status.nodes.empty()) view.status.nodes = seen.status.nodes;
  const Clock::time_point now = Clock::now();
  if (!view.hopeless.has_value()) {
    seen.hopeless_since.reset();
  } else {
    seen.hopeless_since = seen.hopeless_since.value_or(now);
  }
  const bool is_over = view.hopeless.has_value() && !seen.cancel_time.has_value() &&
                       (view.is_urgent || now - *seen.hopeless_since >= options_.hopeless_limit);
  if (is_over) {
    RETURN_IF_ERROR(Delete(job.attempt_id));
    view.status.state = JobState::kEnded;
    view.status.end = {.kind = *view.hopeless};
  }
  const bool stays = seen.cancel_time.has_value() && view.status.state != JobState::kEnded &&
                     now - *seen.cancel_time >= options_.deletion_limit;
  if (stays) {
    view.status.state = JobState::kEnded;
    view.status.end = {.kind = JobEndKind::kCancelled};
    view.status.reason = fmt::format("deleted {:.0f} s ago, but parts of it still exist",
                                     options_.deletion_limit.count());
  }
  seen.status = std::move(view.status);
  return absl::OkStatus();
}

void KubernetesEngine::NoteGone(const std::string& attempt_id) {
  const auto seen = seen_.find(attempt_id);
  if (seen == seen_.end()) return;
  seen->second.status.state = JobState::kEnded;
  seen->second.status.end = {.kind = JobEndKind::kCancelled};
  seen->second.status.reason =
      seen->second.cancel_time.has_value() ? "deleted" : "deleted from outside";
}

absl::Status KubernetesEngine::Delete(const std::string& attempt_id) const {
  ASSIGN_OR_RETURN(const HttpResponse response,
                   Send("DELETE", PathOf(template_.job) + "/" + attempt_id, kDeletion));
  if (IsSuccess(response.status) || response.status == kHttpNotFound) return absl::OkStatus();
  return Failure(fmt::format("delete {} {}", template_.job.plural, attempt_id), response);
}

absl::Status KubernetesEngine::Cancel(const JobHandle& job) {
  // A job that has ended is kept, so that somebody can still look at it.
  ASSIGN_OR_RETURN(const std::vector<JobStatus> statuses, Poll({&job, 1}));
  const JobState state = statuses.front().state;
  if (state == JobState::kEnded || state == JobState::kUnknown) return absl::OkStatus();
  RETURN_IF_ERROR(Delete(job.attempt_id));
  Seen& seen = seen_[job.attempt_id];
  seen.cancel_time = seen.cancel_time.value_or(Clock::now());
  return absl::OkStatus();
}

}  // namespace meshwright
