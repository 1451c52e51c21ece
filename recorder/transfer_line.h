#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "search_space/digest/sha256.h"

namespace meshwright {

// The lines of an export (transfer.h), internal to recorder/. Bytes are base64, absent values are
// omitted, and numbers keep every bit. Neither sequence nor request_id is written, because both
// belong to one store; nor is the sequence of a retraction.
struct TransferHeader {
  std::int64_t version = 0;
  bool operator==(const TransferHeader&) const = default;
};
struct TransferEnd {
  std::int64_t count = 0;   // number of lines before
  std::string sha256 = {};  // digest of the lines before, each with a line feed
  bool operator==(const TransferEnd&) const = default;
};
// One line. A measurement's question has only its digest.
using TransferLine =
    std::variant<TransferHeader, QuestionRecord, CalibrationRecord, MeasurementRecord, TransferEnd>;

// The number and digest of the lines so far, which the last line of an export states.
class LineTally {
 public:
  void Add(std::string_view line);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] TransferEnd End() const { return {.count = count_, .sha256 = digest_.Hex()}; }

 private:
  std::int64_t count_ = 0;
  Sha256 digest_ = {};
};

std::string EncodeLine(const TransferLine& line);

// Decodes a line. INVALID_ARGUMENT says what is wrong; unknown members are ignored.
absl::StatusOr<TransferLine> DecodeLine(std::string_view line);

// Returns "member: ours here, theirs there" for every member that differs. Retractions are not
// compared, because they come after a measurement and are merged (docs/store/export.md).
std::vector<std::string> Differences(const MeasurementRecord& ours,
                                     const MeasurementRecord& theirs);

}  // namespace meshwright
