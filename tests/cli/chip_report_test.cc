#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <sstream>
#include <string>

#include "cli/reports/chip_table.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

v1::Chip ParseChip(const std::string& text) {
  v1::Chip chip;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &chip)) << text;
  return chip;
}

TEST(ChipReportTest, EveryFigureWithItsSource) {
  const auto chip = ParseChip(R"(
    id: "a-1" name: "One" vendor: "A" confidence: "high" aliases: ["one", "1"]
    figures { name: "power" value: "400" source: "data sheet" provenance: "published"
              confidence: "high" })");
  const std::string report = ChipReport(chip, 100);
  EXPECT_THAT(report, HasSubstr("aliases: one, 1\n"));
  EXPECT_THAT(report, HasSubstr("power   400    published   high        data sheet\n"));
}

// The figure and its value are 44 and 17 columns, the two words after them 13 and 12.
TEST(ChipReportTest, AListAmongTheValuesLeavesTheColumnsReadable) {
  const auto chip = ParseChip(R"(
    id: "a-1" name: "One" vendor: "A" confidence: "high"
    figures { name: "measured_memory_bandwidth_bytes_per_second" value: "989000000000000"
              source: "data sheet" provenance: "transferred" confidence: "medium" }
    figures { name: "collective_all_reduce_2_ranks" provenance: "fitted" confidence: "low"
              value: "alpha_seconds 5.9e-06, bandwidth_bytes_per_second 335800000000, half_bytes 3"
              source: "fitted by us" })");
  const std::string begin =
      "  measured_memory_bandwidth_bytes_per_second  989000000000000  transferred";
  EXPECT_THAT(ChipReport(chip, 80),
              HasSubstr(begin + "\n      confidence medium; source data sheet\n"));
  EXPECT_THAT(ChipReport(chip, 100),
              HasSubstr(begin + "  medium      data sheet\n"
                                "  collective_all_reduce_2_ranks                                "
                                "fitted       low         fitted by us\n"
                                "      value alpha_seconds 5.9e-06, bandwidth_bytes_per_second "
                                "335800000000, half_bytes 3\n"));
  for (const int columns : {80, 100, 120}) {
    std::istringstream lines(ChipReport(chip, columns));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
    }
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
