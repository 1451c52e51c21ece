#include "server/launchers/kubernetes/kubernetes_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/launchers/kubernetes/kubernetes_object.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

// The code with which kubernetes_pod.sh ends at the time limit.
constexpr int kTimeLimitCode = 124;

struct EndRow {
  std::string_view word;
  JobEndKind kind;
};

// Values of status.reason of a failed pod.
constexpr EndRow kPodReasons[] = {
    {"DeadlineExceeded", JobEndKind::kTimeLimit},
    {"Evicted", JobEndKind::kNodeFailure},
    {"NodeAffinity", JobEndKind::kNodeFailure},
    {"NodeLost", JobEndKind::kNodeFailure},
    {"NodeShutdown", JobEndKind::kNodeFailure},
    {"Preempting", JobEndKind::kPreempted},
    {"Shutdown", JobEndKind::kNodeFailure},
    {"Terminated", JobEndKind::kNodeFailure},
    {"UnexpectedAdmissionError", JobEndKind::kNodeFailure},
};
constexpr std::string_view kNodeIsFull = "outof";  // "OutOfcpu", "OutOfnvidia.com/gpu"

// Reasons of the condition DisruptionTarget; all others mean preemption.
constexpr EndRow kDisruptions[] = {
    {"DeletionByPodGC", JobEndKind::kNodeFailure},
    {"DeletionByTaintManager", JobEndKind::kNodeFailure},
    {"TerminationByKubelet", JobEndKind::kNodeFailure},
};

// Reasons for which a container ended.
constexpr EndRow kContainerReasons[] = {
    {"ContainerCannotRun", JobEndKind::kRefused},
    {"OOMKilled", JobEndKind::kOutOfMemory},
    {"StartError", JobEndKind::kRefused},
};

// Reasons for which a container does not begin if the request is at fault.
constexpr std::string_view kHopelessWaits[] = {
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
    "ImageInspectError",          "ImagePullBackOff",     "InvalidImageName",  "RunContainerError"};

// Part of Kueue's message if a job requests more than its queue can ever have.
constexpr std::string_view kAboveCapacity = "> maximum capacity";

std::optional<JobEndKind> Find(std::span<const EndRow> rows, std::string_view word) {
  const auto found = std::ranges::find(rows, word, &EndRow::word);
  return found == rows.end() ? std::nullopt : std::optional(found->kind);
}

// Returns the value at a path, or null.
const Json& At(const Json& json, const char* path) {
  static const Json kNull;
  const Json::json_pointer pointer(path);
  return json.contains(pointer) ? json[pointer] : kNull;
}

std::string TextAt(const Json& json, const char* path) {
  const Json& found = At(json, path);
  return found.is_string() ? found.get<std::string>() : std::string();
}

// Returns the condition of a type if it has this status, or null.
const Json& Condition(const Json& object, std::string_view type, std::string_view status) {
  static const Json kNull;
  for (const Json& condition : At(object, "/status/conditions")) {
    if (TextAt(condition, "/type") == type && TextAt(condition, "/status") == status) {
      return condition;
    }
  }
  return kNull;
}

// Returns "reason: message", or the one of them that is there.
std::string Words(const Json& json) {
  const std::string reason = TextAt(json, "/reason");
  const std::string message = TextAt(json, "/message");
  if (reason.empty() || message.empty()) return reason + message;
  return fmt::format("{}: {}", reason, message);
}

std::string LabelOf(const Json& object, const std::string& key) {
  const Json& labels = At(object, "/metadata/labels");
  const auto found = labels.find(key);
  return found != labels.end() && found->is_string() ? found->get<std::string>() : std::string();
}

absl::StatusOr<std::vector<Json>> ItemsOf(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !At(json, "/items").is_array()) {
    return absl::UnavailableError("the API server's answer is not a list: " +
                                  CleanText(text, {.longest_bytes = 200}));
  }
  return json["items"].get<std::vector<Json>>();
}

bool Holds(const KubernetesStatusRow& row, const Json& object) {
  if (row.condition.empty()) return TextAt(object, row.path.c_str()) == row.value;
  const Json& condition = Condition(object, row.condition, "True");
  return !condition.is_null() && (row.reason.empty() || TextAt(condition, "/reason") == row.reason);
}

// Returns the container that tells most: one that failed, or else the first.
const Json& Container(const Json& pod) {
  static const Json kNull;
  const Json& all = At(pod, "/status/containerStatuses");
  if (!all.is_array() || all.empty()) return kNull;
  const auto failed = std::ranges::find_if(all, [](const Json& each) {
    const Json& code = At(each, "/state/terminated/exitCode");
    return code.is_number_integer() && code.get<int>() != 0;
  });
  return failed == all.end() ? all.front() : *failed;
}

std::optional<JobEndKind> DisruptionOf(const Json& pod) {
  const Json& condition = Condition(pod, "DisruptionTarget", "True");
  if (condition.is_null()) return std::nullopt;
  return Find(kDisruptions, TextAt(condition, "/reason")).value_or(JobEndKind::kPreempted);
}

std::optional<JobEndKind> KindOfPodReason(const Json& pod) {
  std::string reason = TextAt(pod, "/status/reason");
  const auto kind = Find(kPodReasons, reason);
  // If its image did not come in time, it was not the job that was slow.
  const bool has_begun = At(Container(pod), "/state").contains("terminated");
  if (kind == JobEndKind::kTimeLimit && !has_begun) return JobEndKind::kNodeFailure;
  if (kind.has_value()) return kind;
  for (char& c : reason) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return reason.starts_with(kNodeIsFull) ? std::optional(JobEndKind::kNodeFailure) : std::nullopt;
}

JobEnd EndOf(const Json& pod) {
  if (TextAt(pod, "/status/phase") == "Succeeded") return {.exit_code = 0};
  if (const auto kind = KindOfPodReason(pod); kind.has_value()) return {.kind = *kind};
  if (const auto kind = DisruptionOf(pod); kind.has_value()) return {.kind = *kind};
  const Json& ended = At(Container(pod), "/state/terminated");
  if (const auto kind = Find(kContainerReasons, TextAt(ended, "/reason")); kind.has_value()) {
    return {.kind = *kind};
  }
  const Json& code = At(ended, "/exitCode");
  if (!code.is_number_integer()) return {};
  if (code == kTimeLimitCode) return {.kind = JobEndKind::kTimeLimit};
  return {.exit_code = code.get<int>()};
}

std::string ReasonOfEnd(const Json& pod, const JobEnd& end) {
  if (std::string words = Words(At(pod, "/status")); !words.empty()) return words;
  const Json& disruption = Condition(pod, "DisruptionTarget", "True");
  if (!disruption.is_null()) return Words(disruption);
  if (end.exit_code.has_value()) return fmt::format("exit code {}", *end.exit_code);
  if (end.kind == JobEndKind::kTimeLimit) return "the time limit of the job";
  return Words(At(Container(pod), "/state/terminated"));
}

// Returns why a pod waits: for a node, or else for what its container waits for.
std::string ReasonOfWait(const Json& pod) {
  const Json& unplaced = Condition(pod, "PodScheduled", "False");
  return unplaced.is_null() ? Words(At(Container(pod), "/state/waiting")) : Words(unplaced);
}

KubernetesPod PodOf(const Json& json, const std::string& attempt_id) {
  KubernetesPod pod = {.attempt_id = attempt_id,
                       .name = TextAt(json, "/metadata/name"),
                       .node = TextAt(json, "/spec/nodeName")};
  const std::string phase = TextAt(json, "/status/phase");
  if (phase == "Succeeded" || phase == "Failed") {
    pod.state = JobState::kEnded;
    pod.end = EndOf(json);
    pod.reason = ReasonOfEnd(json, *pod.end);
    pod.start_time = TextAt(Container(json), "/state/terminated/startedAt");
    pod.end_time = TextAt(Container(json), "/state/terminated/finishedAt");
    return pod;
  }
  pod.state = phase == "Running" ? JobState::kRunning : JobState::kPending;
  pod.reason = pod.state == JobState::kPending ? ReasonOfWait(json) : "";
  const std::string waits_for = TextAt(Container(json), "/state/waiting/reason");
  if (std::ranges::find(kHopelessWaits, waits_for) != std::end(kHopelessWaits)) {
    pod.hopeless = JobEndKind::kRefused;
  } else if (const auto kind = DisruptionOf(json); kind.has_value()) {
    pod.hopeless = kind;
    pod.reason = Words(Condition(json, "DisruptionTarget", "True"));
  } else if (TextAt(json, "/status/reason") == "NodeLost") {
    pod.hopeless = JobEndKind::kNodeFailure;
    pod.reason = Words(At(json, "/status"));
  }
  return pod;
}

// Returns the pod that tells why the job failed. A pod that the cluster ended comes before pods
// that failed, which may be a consequence; then the first in time counts; pods that were only
// terminated come last.
const KubernetesPod* Cause(std::span<const KubernetesPod> pods) {
  const auto rank = [](const KubernetesPod& pod) {
    const bool is_of_pod = pod.end->kind == JobEndKind::kExited;
    const int code = pod.end->exit_code.value_or(255);
    return std::tuple(is_of_pod, code > 128, pod.end_time, pod.name);
  };
  const KubernetesPod* cause = nullptr;
  for (const KubernetesPod& pod : pods) {
    const bool has_failed = pod.end.has_value() && pod.end->exit_code != 0;
    if (has_failed && (cause == nullptr || rank(pod) < rank(*cause))) cause = &pod;
  }
  return cause;
}

// Parses times such as "2026-11-23T16:03:43Z".
std::optional<Seconds> UnixTime(const std::string& text) {
  std::tm time = {};
  std::istringstream in(text);
  in >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S");
  if (in.fail()) return std::nullopt;
  return Seconds(static_cast<double>(timegm(&time)));
}

// Returns the time from the first start to the last end among the pods that still exist.
std::optional<Seconds> PodsRunTime(std::span<const KubernetesPod> pods) {
  std::string start;
  std::string end;
  for (const KubernetesPod& pod : pods) {
    if (pod.start_time.empty() || pod.end_time.empty()) continue;
    if (start.empty() || pod.start_time < start) start = pod.start_time;
    end = std::max(end, pod.end_time);
  }
  const std::optional<Seconds> from = UnixTime(start);
  const std::optional<Seconds> to = UnixTime(end);
  // The times are whole seconds: 0 may be nearly one.
  if (!from.has_value() || !to.has_value() || *to <= *from) return std::nullopt;
  return *to - *from;
}

void SetEnd(const KubernetesJob& job, std::span<const KubernetesPod> pods, JobStatus& status) {
  status.state = JobState::kEnded;
  status.end = job.end;
  status.reason = job.reason;
  status.run_time = PodsRunTime(pods);
  const KubernetesPod* const cause = Cause(pods);
  if (job.end->exit_code == 0 || cause == nullptr) return;
  // The pods tell more than the job, except for an end that the cluster gave to the job and not to
  // a pod.
  const bool is_of_pod = cause->end->kind == JobEndKind::kExited;
  if (is_of_pod && job.end->kind != JobEndKind::kExited) return;
  status.end = cause->end;
  status.reason = fmt::format("{}: {}", cause->name, cause->reason);
}

JobState StateOf(std::span<const KubernetesPod> pods) {
  const auto is = [&pods](JobState state) {
    return std::ranges::find(pods, state, &KubernetesPod::state) != pods.end();
  };
  if (is(JobState::kPending)) return JobState::kPending;
  return is(JobState::kRunning) || is(JobState::kEnded) ? JobState::kRunning : JobState::kPending;
}

std::vector<std::string> NodesOf(std::span<const KubernetesPod> pods) {
  std::vector<std::string> nodes;
  for (const KubernetesPod& pod : pods) {
    if (!pod.node.empty()) nodes.push_back(pod.node);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

void AddWorkload(const KubernetesWorkload& workload, KubernetesView& view) {
  if (workload.is_admitted && !workload.is_preempted) return;
  view.status.reason = workload.reason;
  if (workload.is_hopeless) view.hopeless = JobEndKind::kRefused;
  if (workload.is_preempted) view.hopeless = JobEndKind::kPreempted;
  view.is_urgent = workload.is_preempted;
}

// Adds a pod to the view. The reason is that of a hopeless pod, or else of the first.
void AddPod(const KubernetesPod& pod, KubernetesView& view) {
  const bool is_first_hope_lost = pod.hopeless.has_value() && !view.hopeless.has_value();
  if (view.status.reason.empty() || is_first_hope_lost) view.status.reason = pod.reason;
  if (is_first_hope_lost) view.hopeless = pod.hopeless;
}

Json ParseObject(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

}  // namespace

absl::StatusOr<std::vector<KubernetesJob>> ParseJobs(const std::string& text,
                                                     const KubernetesTemplate& job_template) {
  ASSIGN_OR_RETURN(const std::vector<Json> items, ItemsOf(text));
  std::vector<KubernetesJob> jobs;
  for (const Json& item : items) {
    KubernetesJob job = {.attempt_id = LabelOf(item, std::string(kAttemptLabel)),
                         .uid = TextAt(item, "/metadata/uid"),
                         .is_going = !At(item, "/metadata/deletionTimestamp").is_null()};
    const auto row = std::ranges::find_if(
        job_template.status,
        [&item](const KubernetesStatusRow& each) { return Holds(each, item); });
    if (row != job_template.status.end()) {
      job.state = row->state;
      job.end = row->end;
      job.reason =
          row->condition.empty() ? row->value : Words(Condition(item, row->condition, "True"));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

absl::StatusOr<std::vector<KubernetesPod>> ParsePods(const std::string& text,
                                                     const std::string& pod_label) {
  ASSIGN_OR_RETURN(const std::vector<Json> items, ItemsOf(text));
  std::vector<KubernetesPod> pods;
  for (const Json& item : items) {
    const std::string attempt_id = LabelOf(item, pod_label);
    if (!attempt_id.empty()) pods.push_back(PodOf(item, attempt_id));
  }
  return pods;
}

absl::StatusOr<std::vector<KubernetesWorkload>> ParseWorkloads(const std::string& text) {
  ASSIGN_OR_RETURN(const std::vector<Json> items, ItemsOf(text));
  std::vector<KubernetesWorkload> workloads;
  for (const Json& item : items) {
    const Json& waits = Condition(item, "QuotaReserved", "False");
    const Json& evicted = Condition(item, "Evicted", "True");
    KubernetesWorkload workload = {.job_uid = LabelOf(item, std::string(kJobUidLabel)),
                                   .reason = Words(waits),
                                   .is_admitted = !Condition(item, "Admitted", "True").is_null()};
    workload.is_hopeless = workload.reason.find(kAboveCapacity) != std::string::npos;
    // Kueue also evicts workloads that did not begin in time, which then only wait again.
    workload.is_preempted = TextAt(evicted, "/reason") == "Preempted";
    if (workload.is_preempted) workload.reason = Words(evicted);
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

std::string UidOf(const std::string& text) { return TextAt(ParseObject(text), "/metadata/uid"); }

std::string AttemptOf(const std::string& text) {
  return LabelOf(ParseObject(text), std::string(kAttemptLabel));
}

std::string MessageOf(const std::string& text) {
  const std::string message = TextAt(ParseObject(text), "/message");
  return message.empty() ? text.substr(0, 200) : message;
}

KubernetesView ViewOf(const KubernetesJob& job, std::span<const KubernetesPod> pods,
                      const KubernetesWorkload* workload) {
  KubernetesView view = {.status = {.external_id = job.uid, .nodes = NodesOf(pods)}};
  // While a job is being deleted, the ends of its pods are not its own end.
  const bool has_succeeded = job.end.has_value() && job.end->exit_code == 0;
  if (job.state == JobState::kEnded && (has_succeeded || !job.is_going)) {
    SetEnd(job, pods, view.status);
    return view;
  }
  const bool is_told = job.state.has_value() && *job.state != JobState::kEnded;
  view.status.state = is_told ? *job.state : StateOf(pods);
  if (workload != nullptr) AddWorkload(*workload, view);
  for (const KubernetesPod& pod : pods) AddPod(pod, view);
  if (view.status.reason.empty()) view.status.reason = job.reason;
  // Events tell why no pods are made (a quota of the namespace), and we do not read events.
  if (view.status.reason.empty() && pods.empty()) view.status.reason = "has no pods yet";
  if (job.is_going) view.status.reason = "is being deleted";
  return view;
}

}  // namespace meshwright
