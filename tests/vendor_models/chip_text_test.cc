#include "vendor_models/chip_text.h"

#include <gtest/gtest.h>

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Every shipped chip stays the same when it is written and read again.
TEST(ChipTextTest, ReadsBackAsItWas) {
  const auto catalogue = Catalogue::LoadBuiltIn();
  ASSERT_TRUE(catalogue.ok());
  for (const ChipEntry& entry : catalogue->chips()) {
    ChipEntry expected = entry;
    expected.is_built_in = false;
    const auto read = ParseChipFile(entry.spec.id, ChipFileText(entry));
    ASSERT_TRUE(read.ok()) << entry.spec.id << ": " << read.status();
    EXPECT_EQ(read->spec, expected.spec) << entry.spec.id;
    EXPECT_EQ(read->figures, expected.figures) << entry.spec.id;
    EXPECT_EQ(read->notes, expected.notes);
    EXPECT_EQ(read->reported_names, expected.reported_names) << entry.spec.id;
  }
}

TEST(ChipTextTest, CurvesAndTilesAreKept) {
  const auto catalogue = Catalogue::LoadBuiltIn();
  ASSERT_TRUE(catalogue.ok());
  ChipEntry entry = **catalogue->Find("cpu-generic");
  entry.spec.collectives = {{.kind = CollectiveKind::kAllGather,
                             .ranks = 2,
                             .alpha = Seconds(1e-5),
                             .bandwidth = {1e9},
                             .half = {1000},
                             .curve = {{.bytes = {4096}, .time = Seconds(1.5e-5)},
                                       {.bytes = {16384}, .time = Seconds(4e-5)}}}};
  entry.figures.push_back({.name = "collective_all_gather_2_ranks",
                           .source = "a \"quoted\" sweep",
                           .provenance = Provenance::kMeasured,
                           .confidence = Confidence::kHigh});
  const auto read = ParseChipFile("cpu-generic", ChipFileText(entry));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec.collectives, entry.spec.collectives);
  EXPECT_EQ(read->spec.gemm_tiles, entry.spec.gemm_tiles);
  EXPECT_EQ(read->spec.collectives_provenance, Provenance::kMeasured);
}

TEST(ChipTextTest, SetsAFigureAndSaysWhenThereIsNone) {
  const auto catalogue = Catalogue::LoadBuiltIn();
  ASSERT_TRUE(catalogue.ok());
  ChipEntry entry = **catalogue->Find("cpu-generic");
  EXPECT_TRUE(SetFigure(entry, {.name = "gemm_fixed_seconds",
                                .value = "2e-05",
                                .source = "here",
                                .provenance = Provenance::kFitted}));
  EXPECT_EQ(entry.spec.gemm.fixed, Seconds(2e-5));
  EXPECT_FALSE(SetFigure(entry, {.name = "gemm_fixed", .value = "2e-05", .source = "here"}));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
