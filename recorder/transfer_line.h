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

// A line of an export (transfer.h), internal to recorder/. Bytes are base64, absent values are
// left out, numbers come back to the last bit. Neither sequence nor request_id are written: both
// are of one store.
struct TransferHeader {
  std::int64_t version = 0;
  bool operator==(const TransferHeader&) const = default;
};
struct TransferEnd {
  std::int64_t count = 0;   // of the lines before
  std::string sha256 = {};  // of the lines before, each with a line feed
  bool operator==(const TransferEnd&) const = default;
};
// A measurement's question has only its digest.
using TransferLine =
    std::variant<TransferHeader, QuestionRecord, CalibrationRecord, MeasurementRecord, TransferEnd>;

// The number and digest of the lines that went by, which the last line of an export states.
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

// INVALID_ARGUMENT says what is wrong; unknown members are ignored.
absl::StatusOr<TransferLine> DecodeLine(std::string_view line);

// "member: ours here, theirs there" for every member that differs.
std::vector<std::string> Differences(const MeasurementRecord& ours,
                                     const MeasurementRecord& theirs);

}  // namespace meshwright
