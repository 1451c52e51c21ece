#include "server/launchers/kubernetes/kubernetes_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/kubernetes_object.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

KubernetesOptions Options() {
  return {.server = "https://10.0.0.1:6443",
          .name_space = "tuning",
          .image = "registry/train:1",
          .device_resource = "nvidia.com/gpu",
          .volume_claim = "shared",
          .mount_path = "/shared",
          .labels = {{"team", "llm"}}};
}

JobSpec Spec() {
  return {.attempt_id = "study-1-t2-a3",
          .folder = "/shared/study-1",
          .command = {"train", "$HOME"},
          .environment = {{"A", "$(B)"}},
          .node_count = 2,
          .processes_per_node = 8,
          .time_limit = Seconds(600.5),
          .excluded_nodes = {"n1", "n2"}};
}

Json Filled(const std::string& name, const KubernetesOptions& options, const JobSpec& spec) {
  const auto job_template = LoadKubernetesTemplate(name);
  EXPECT_TRUE(job_template.ok()) << job_template.status();
  const auto text = JobObject(*job_template, options, spec);
  EXPECT_TRUE(text.ok()) << text.status();
  return Json::parse(*text);
}

TEST(KubernetesObjectTest, Job) {
  KubernetesOptions options = Options();
  options.queue = "gpus";
  const Json job = Filled("job", options, Spec());
  EXPECT_EQ(job["metadata"], Json::parse(R"({"name": "study-1-t2-a3", "labels": {
    "app.kubernetes.io/managed-by": "meshwright", "kueue.x-k8s.io/queue-name": "gpus",
    "meshwright.io/attempt": "study-1-t2-a3", "team": "llm"}})"));
  const Json& spec = job["spec"];
  EXPECT_EQ(spec["completionMode"], "Indexed");
  EXPECT_EQ(spec["completions"], 2);
  EXPECT_EQ(spec["parallelism"], 2);
  EXPECT_EQ(spec["backoffLimit"], 0);
  EXPECT_EQ(spec["suspend"], true);
  const Json& pod = spec["template"]["spec"];
  EXPECT_EQ(pod["restartPolicy"], "Never");
  EXPECT_EQ(pod["activeDeadlineSeconds"], 1501);  // 600.5 and the 900 of start_limit, rounded up
  EXPECT_EQ(pod["affinity"], Json::parse(R"({"nodeAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
      {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
      {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}]}}})"));
  EXPECT_EQ(pod["volumes"], Json::parse(R"([{"name": "meshwright",
    "persistentVolumeClaim": {"claimName": "shared"}}])"));
  const Json& container = pod["containers"][0];
  EXPECT_EQ(container["resources"], Json::parse(R"({"limits": {"nvidia.com/gpu": "8"}})"));
  EXPECT_EQ(container["env"], Json::parse(R"-([{"name": "A", "value": "$$(B)"},
                                         {"name": "MESHWRIGHT_ATTEMPT", "value": "study-1-t2-a3"}])-"));
  const auto words = container["command"].get<std::vector<std::string>>();
  const std::vector<std::string> arguments(words.begin() + 3, words.end());
  EXPECT_THAT(arguments,
              ElementsAre("bash", "/shared/study-1/study-1-t2-a3.log", "JOB_COMPLETION_INDEX",
                          "study-1-t2-a3-0.meshwright", "2", "8", "600.5", "train", "$$HOME"));
}

TEST(KubernetesObjectTest, WhatIsNotSetIsLeftOut) {
  KubernetesOptions options = Options();
  options.device_resource.clear();
  options.volume_claim.clear();
  options.mount_path.clear();
  JobSpec spec = Spec();
  spec.node_count = 1;
  spec.excluded_nodes.clear();
  const Json pod = Filled("job", options, spec)["spec"]["template"]["spec"];
  EXPECT_FALSE(pod.contains("affinity"));
  EXPECT_FALSE(pod["containers"][0].contains("resources"));
  EXPECT_EQ(pod["volumes"], Json::array());
  EXPECT_FALSE(Filled("volcano", options, spec)["spec"].contains("queue"));
  const auto words = pod["containers"][0]["command"].get<std::vector<std::string>>();
  EXPECT_EQ(words[6], "127.0.0.1");  // MASTER_ADDR of a job of one pod
}

TEST(KubernetesObjectTest, ListsAreSpliced) {
  const Json job = Filled("mpijob", Options(), Spec());
  const auto words =
      job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
          .get<std::vector<std::string>>();
  EXPECT_THAT(std::vector(words.begin() + 4, words.begin() + 9),
              ElementsAre("env", "A=$$(B)", "MESHWRIGHT_ATTEMPT=study-1-t2-a3", "bash", "-c"));
}

TEST(KubernetesObjectTest, NoPlaceholderIsLeft) {
  KubernetesOptions options = Options();
  options.queue = "gpus";
  for (const char* const name : {"job", "mpijob", "pytorchjob", "trainjob", "volcano"}) {
    const std::string text = Filled(name, options, Spec()).dump();
    for (const std::string_view word : KubernetesPlaceholders()) {
      EXPECT_THAT(text, Not(HasSubstr("\"${" + std::string(word) + "}"))) << name;
    }
    EXPECT_THAT(text, HasSubstr("registry/train:1")) << name;
  }
}

// Every placeholder has a value, so that none is documented in vain.
TEST(KubernetesObjectTest, EveryPlaceholder) {
  KubernetesOptions options = Options();
  options.queue = "gpus";
  for (const std::string_view word : KubernetesPlaceholders()) {
    const auto text = FillObject("{\"x\": \"${" + std::string(word) + "}\"}", {}, options, Spec());
    ASSERT_TRUE(text.ok());
    EXPECT_THAT(*text, HasSubstr("\"x\":")) << word;
  }
  EXPECT_EQ(FillObject(R"({"x": "of ${nodes} in ${name_space}"})", {}, options, Spec()).value(),
            R"({"x":"of 2 in tuning"})");
}

TEST(KubernetesObjectTest, JobsThatCannotBe) {
  KubernetesOptions options = Options();
  JobSpec spec = Spec();
  spec.attempt_id = "1" + std::string(60, 'x');
  spec.folder = "/sharedness";
  const auto job_template = LoadKubernetesTemplate("job");
  EXPECT_EQ(
      CheckJob(*job_template, options, spec).message(),
      "attempt_id = '1" + std::string(60, 'x') +
          "'; must be at most 52 of a-z, 0-9 and '-', and begin with a letter, because it becomes "
          "the name of the job; folder = '/sharedness'; must be in '/shared', where the pods "
          "have the shared volume; node_count = 2; must be 1 if nothing places all pods of "
          "a job at once: name a queue of Kueue, or a template whose scheduler does so "
          "(volcano)");
  EXPECT_TRUE(CheckJob(*LoadKubernetesTemplate("volcano"), options, Spec()).ok());
  options.queue = "gpus";
  EXPECT_TRUE(CheckJob(*job_template, options, Spec()).ok());
}

std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(status)) fields.push_back(violation.field);
  return fields;
}

TEST(KubernetesTemplateTest, EveryBadFieldIsNamed) {
  const auto made = ParseKubernetesTemplate(R"({
    "gang": "maybe",
    "pod_label": "",
    "master_address": "${nodes}",
    "wrong": 1,
    "object": {
      "apiVersion": "v1",
      "metadata": {"name": "x"},
      "spec": {"list": ["${nodez}", {"command": "${command}"}]}
    },
    "shared_objects": [{"plural": "services", "object": {"apiVersion": "v1", "kind": "Service",
                        "metadata": {"name": "${attempt_id}"}}, "more": 1}, 7],
    "status": [
      {"condition": "Complete", "state": "done"},
      {"path": "status", "value": "x", "state": "running", "end": "refused"},
      {"state": "succeeded"},
      7
    ]
  })");
  EXPECT_THAT(FieldsOf(made.status()),
              ElementsAre("wrong", "plural", "object.kind", "object.spec.list[0]",
                          "shared_objects[0].more", "shared_objects[1]", "shared_objects",
                          "pod_label", "rank_variable", "status[0].state", "status[1].path",
                          "status[1].end", "status[2].condition", "status[3]", "status", "gang",
                          "object", "object.metadata.name", "master_address"));
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("object.spec.list[0] = '${nodez}'; no such placeholder, must be one of "
                        "affinity, attempt_id, command"));
}

TEST(KubernetesTemplateTest, WhatIsNoObject) {
  for (const char* const text : {"", "[]", "not json", "\"x\"", "\xff"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseKubernetesTemplate(text).status())) << text;
  }
  EXPECT_THAT(FieldsOf(ParseKubernetesTemplate("{}").status()),
              ElementsAre("plural", "object", "pod_label", "rank_variable", "master_address",
                          "status", "gang", "object", "object"));
}

// One that is not closed was taken for its word, and filling it never ended.
TEST(KubernetesTemplateTest, APlaceholderThatIsNotClosedIsRefused) {
  std::string text(*FindKubernetesTemplate("job"));
  const std::string closed = "${image}";
  ASSERT_NE(text.find(closed), std::string::npos);
  text.replace(text.find(closed), closed.size(), "${image");
  EXPECT_THAT(std::string(ParseKubernetesTemplate(text).status().message()),
              HasSubstr("'${${image}'; no such placeholder"));
}

TEST(KubernetesTemplateTest, ControlCharactersAreRefused) {
  std::string text(*FindKubernetesTemplate("job"));
  const std::string image = "${image}";
  ASSERT_NE(text.find(image), std::string::npos);
  std::string lines = text;
  lines.replace(lines.find(image), image.size(), "a\\n\\tb");
  EXPECT_TRUE(ParseKubernetesTemplate(lines).ok()) << ParseKubernetesTemplate(lines).status();
  text.replace(text.find(image), image.size(), "a\\u0000");
  EXPECT_THAT(std::string(ParseKubernetesTemplate(text).status().message()),
              HasSubstr("\"a\\u0000\"; must have no control characters, but byte 2"));
}

TEST(KubernetesTemplateTest, AFileOfTheSite) {
  const std::string path = testing::TempDir() + "/kubernetes_template.json";
  std::ofstream(path) << *FindKubernetesTemplate("volcano");
  const auto made = LoadKubernetesTemplate(path);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->job.path, "/apis/batch.volcano.sh/v1alpha1");
  EXPECT_EQ(made->gang, GangScheduler::kOwn);
  EXPECT_EQ(LoadKubernetesTemplate("/no/such/file").status().message(),
            "job_template = '/no/such/file'; cannot be read");
  EXPECT_EQ(LoadKubernetesTemplate("/proc").status().message(),
            "job_template = '/proc'; cannot be read");
}

TEST(KubernetesOptionsTest, Valid) { EXPECT_TRUE(Validate(Options()).ok()) << Validate(Options()); }

TEST(KubernetesOptionsTest, EveryBadFieldIsNamed) {
  const KubernetesOptions options = {.server = "http://10.0.0.1/",
                                     .token_file = "/no/such/token",
                                     .ca_file = "/no/such/ca",
                                     .name_space = "No_Name",
                                     .job_template = "nojob",
                                     .queue = "-",
                                     .devices_per_node = 0,
                                     .mount_path = "shared",
                                     .labels = {{"meshwright.io/attempt", "x"}, {"a b", "c d"}},
                                     .request_limit = Seconds(0),
                                     .hopeless_limit = Seconds(-1),
                                     .start_limit = Seconds(0),
                                     .deletion_limit = Seconds(0)};
  EXPECT_THAT(
      FieldsOf(Validate(options)),
      ElementsAre("server", "server", "token_file", "ca_file", "namespace", "job_template", "queue",
                  "image", "devices_per_node", "device_resource", "volume_claim", "mount_path",
                  "labels['a b']", "labels['a b']", "labels['meshwright.io/attempt']",
                  "request_limit_seconds", "start_limit_seconds", "deletion_limit_seconds",
                  "hopeless_limit_seconds"));
  EXPECT_THAT(std::string(Validate(options).message()),
              HasSubstr("job_template = 'nojob'; must be one of job, mpijob, pytorchjob, trainjob, "
                        "volcano, or the absolute path of a file"));
  EXPECT_THAT(FieldsOf(Validate(KubernetesOptions())), ElementsAre("server", "namespace", "image"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
