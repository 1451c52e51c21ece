#include "server/engine/measurement.h"

#include <fmt/format.h>

#include "search_space/base/units.h"
#include "search_space/digest/fnv.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

QuestionRecord QuestionRecordOf(const Question& question, const Problem& problem,
                                const StudyCodec& codec) {
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  QuestionRecord record = {.model_name = problem.model.name,
                           .cluster_name = problem.cluster.name,
                           .chip = chip.id,
                           .framework = problem.profile.name,
                           .framework_version = problem.workload.framework_version,
                           .device_count = DeviceCount(problem.cluster),
                           .job_fingerprint = JobFingerprint(problem),
                           .hardware_fingerprint = HardwareFingerprint(problem.cluster),
                           .software_fingerprint = SoftwareFingerprint(problem),
                           .chip_fingerprint = ChipFingerprint(chip),
                           .question = codec.encode_question(question)};
  // The digest includes the fingerprints, because the same bytes mean something else once a chip's
  // figures or a default have changed.
  record.digest = Fnv1a128Hex(fmt::format("{}\n{}\n{}\n{}\n{}", record.job_fingerprint,
                                          record.hardware_fingerprint, record.software_fingerprint,
                                          record.chip_fingerprint, record.question));
  return record;
}

std::string MeasurementId(const MeasurementRecord& measurement, std::string_view origin) {
  const double step_time = measurement.step_time.value_or(Seconds(0)).count();
  return "m-" +
         Fnv1a128Hex(fmt::format("{}\n{}\n{}\n{}\n{}", origin, measurement.time_ms,
                                 measurement.question.digest, measurement.plan_key, step_time));
}

CalibrationRecord CalibrationRecordOf(const CalibrationReport& report, const StudyCodec& codec,
                                      std::int64_t time_ms) {
  return {.id = report.id,
          .chip = report.chip,
          .framework = report.framework,
          .framework_version = report.framework_version,
          .job_fingerprint = report.job_fingerprint,
          .last_sequence = report.history_sequence,
          .measurement_count = report.run_count,
          .time_ratio = report.time_ratio,
          .memory_ratio = report.memory_ratio,
          .model_version = report.model_version,
          .create_time_ms = time_ms,
          .content = codec.encode_calibration(report)};
}

}  // namespace meshwright
