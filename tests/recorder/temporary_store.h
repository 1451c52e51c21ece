#pragma once

#include <string>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/units.h"

namespace meshwright {

inline StudyRecord MakeStudy(const std::string& id, std::int64_t create_time_ms = 1000) {
  return {.id = id,
          .model_name = "llama-13b",
          .cluster_name = "a100x64",
          .chip = "nvidia-a100-sxm4-80gb",
          .device_count = 64,
          .question = std::string("q\0uestion", 9),
          .owner = "pid 1",
          .create_time_ms = create_time_ms};
}

inline PlanRecord MakePlan(const std::string& study_id, int rank) {
  return {.study_id = study_id,
          .rank = rank,
          .plan_key = "tp2,pp2",
          .plan_digest = "d" + std::to_string(rank),
          .state = "estimated",
          .plan = std::string("\0plan", 5),
          .estimate = "",
          .step_time = Seconds(1.5 + rank),
          .peak_memory = GiB(40),
          .reserved_memory = GiB(44),
          .fits = true};
}

inline EventRecord MakeEvent(const std::string& study_id, const std::string& payload = "p") {
  return {.study_id = study_id, .time_ms = 2000, .kind = "progress", .payload = payload};
}

inline QuestionRecord MakeQuestion(const std::string& name) {
  return {.digest = "digest of " + name,
          .model_name = name,
          .cluster_name = "a100x64",
          .chip = "nvidia-a100-sxm4-80gb",
          .framework = "megatron",
          .framework_version = "0.6",
          .device_count = 64,
          .job_fingerprint = "job of " + name,
          .hardware_fingerprint = "hardware",
          .software_fingerprint = "software",
          .chip_fingerprint = "chip",
          .question = std::string("q\0uestion", 9)};
}

inline MeasurementRecord MakeMeasurement(const std::string& id,
                                         const std::string& model = "llama-13b") {
  return {.id = id,
          .source = MeasurementSource::kJobReport,
          .question = MakeQuestion(model),
          .plan_key = "tp2,pp2",
          .plan_digest = "d",
          .plan = std::string("\0plan", 5),
          .step_time = Seconds(1.5),
          .peak_memory = GiB(40),
          .device_time = Seconds(64),
          .time_ms = 3000,
          .job_name = "job"};
}

inline TrialIntent MakeIntent(const std::string& study_id, const std::string& plan_digest) {
  return {.study_id = study_id,
          .plan_key = "tp2,pp2",
          .plan_digest = plan_digest,
          .plan = std::string("\0plan", 5),
          .expected_step_time = Seconds(1.25),
          .success_probability = 0.9,
          .launcher = "replay",
          .time_ms = 2000};
}

}  // namespace meshwright
