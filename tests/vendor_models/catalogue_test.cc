#include "vendor_models/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/chip_names.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

const Catalogue& BuiltIn() {
  static const absl::StatusOr<Catalogue> catalogue = Catalogue::LoadBuiltIn();
  EXPECT_TRUE(catalogue.ok()) << catalogue.status();
  return *catalogue;
}

// Returns the ids of the files in vendor_models/chips.
std::vector<std::string> IdsOfChipFiles() {
  std::vector<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator(MESHWRIGHT_CHIPS)) {
    ids.push_back(entry.path().stem());
  }
  return ids;
}

// Some of the collected chips lack memory, bandwidth or a half-precision peak; they are listed
// with the missing figures.
TEST(CatalogueTest, LoadsEveryBuiltInChip) {
  std::vector<std::string> ids;
  for (const ChipEntry& chip : BuiltIn().chips()) ids.push_back(chip.spec.id);
  EXPECT_THAT(ids, testing::UnorderedElementsAreArray(IdsOfChipFiles()));
  EXPECT_EQ(BuiltIn().unmodelled().size(), 13u);
}

TEST(CatalogueTest, EveryChipIsPlausible) {
  std::string previous;
  for (const ChipEntry& chip : BuiltIn().chips()) {
    const ChipSpec& spec = chip.spec;
    SCOPED_TRACE(spec.id);
    EXPECT_LT(previous, spec.id);
    previous = spec.id;
    EXPECT_TRUE(chip.is_built_in);
    // A core of a CPU is included for testing jobs.
    const bool is_accelerator = spec.id != "cpu-generic";
    EXPECT_GE(spec.memory_capacity, is_accelerator ? GiB(8) : GiB(1));
    if (spec.reported_memory_capacity.count > 0) {
      EXPECT_GE(spec.reported_memory_capacity / spec.memory_capacity, 0.9);
    }
    EXPECT_GT(spec.vector_peak.rate, 0);
    EXPECT_GT(spec.core_count, 0);
    EXPECT_GT(spec.cache.count, 0);
    EXPECT_GT(spec.scale_up.bandwidth.rate, 0);
    EXPECT_GE(spec.scale_up.domain_size, 1);
    EXPECT_GE(spec.usual_node.nic_count, 1);
    const bool has_half =
        spec.peak.contains(Precision::kBf16) || spec.peak.contains(Precision::kFp16);
    EXPECT_TRUE(has_half);
    for (const ChipFigure& figure : chip.figures) {
      EXPECT_FALSE(figure.value.empty()) << figure.name;
      EXPECT_FALSE(figure.source.empty()) << figure.name;
    }
  }
}

double NumberOf(const ChipEntry& chip, const std::string& name) {
  for (const ChipFigure& figure : chip.figures) {
    if (figure.name == name) return std::stod(figure.value);
  }
  return 0;
}

// The best GEMM in a public benchmark is listed beside the data sheet's peak. The chips are A100,
// Gaudi 2 and the mesh of MI300X (docs/cost_model/collectives.md).
TEST(CatalogueTest, MeasuredPeaksStandBesideTheNominalOnes) {
  const ChipEntry& a100 = *BuiltIn().Find("nvidia-a100-sxm4-80gb").value();
  EXPECT_EQ(NumberOf(a100, "peak_bf16_flops_per_second"), 312e12);
  EXPECT_EQ(NumberOf(a100, "measured_peak_bf16_flops_per_second"), 271.2e12);
  EXPECT_EQ(NumberOf(a100, "measured_memory_bandwidth_bytes_per_second"), 1529e9);
  EXPECT_DOUBLE_EQ(a100.spec.peak.at(Precision::kBf16).rate, 312e12);
  const ChipEntry& gaudi = *BuiltIn().Find("intel-gaudi2").value();
  EXPECT_EQ(NumberOf(gaudi, "measured_peak_fp8_flops_per_second"), 826.5e12);
  const ChipEntry& mi300x = *BuiltIn().Find("amd-instinct-mi300x").value();
  EXPECT_EQ(NumberOf(mi300x, "measured_all_reduce_2_ranks_bytes_per_second"), 47.7e9);
  EXPECT_EQ(NumberOf(mi300x, "measured_all_reduce_8_ranks_bytes_per_second"), 312.9e9);
}

// If an efficiency is the measured peak divided by the nominal one, the two figures agree to three
// digits.
TEST(CatalogueTest, MeasuredPeaksAgreeWithTheEfficienciesTakenFromThem) {
  int measured_count = 0;
  int compared_count = 0;
  for (const ChipEntry& chip : BuiltIn().chips()) {
    SCOPED_TRACE(chip.spec.id);
    for (const ChipFigure& figure : chip.figures) {
      if (figure.name.starts_with("measured_peak_")) {
        EXPECT_LE(figure.provenance, Provenance::kTransferred) << figure.name;
        ++measured_count;
      }
      if (figure.name != "gemm_compute_efficiency_ratio" ||
          figure.source.find("MAMF") == std::string::npos) {
        continue;
      }
      EXPECT_NEAR(NumberOf(chip, "measured_peak_bf16_flops_per_second") /
                      NumberOf(chip, "peak_bf16_flops_per_second"),
                  chip.spec.gemm.compute_efficiency, 1e-3);
      ++compared_count;
    }
  }
  EXPECT_GE(measured_count, 30);
  EXPECT_EQ(compared_count, 6);  // MI300X, MI325X, MI355X, Gaudi 2 and 3, GH200
}

// The constants are those of GEMM, attention and collectives; one without an error has no high
// confidence.
TEST(CatalogueTest, FittedConstantsSayTheirError) {
  int count = 0;
  for (const ChipEntry& chip : BuiltIn().chips()) {
    for (const ChipFigure& figure : chip.figures) {
      const bool is_term = figure.name.starts_with("gemm_") ||
                           figure.name.starts_with("attention_efficiency") ||
                           figure.name.starts_with("collective_");
      if (!is_term || figure.provenance != Provenance::kFitted) continue;
      if (figure.confidence != Confidence::kHigh) continue;
      EXPECT_THAT(figure.source, HasSubstr(" %")) << chip.spec.id << " " << figure.name;
      ++count;
    }
  }
  EXPECT_GT(count, 100);
}

// A shipped constant states its own error against the table that it was fitted to, not only the
// error of the fit. So do measured curves and constants of memory-bound operators.
TEST(CatalogueTest, ShippedConstantsSayTheirOwnError) {
  int count = 0;
  for (const ChipEntry& chip : BuiltIn().chips()) {
    const bool is_calibration = chip.spec.id == "cpu-generic";
    for (const ChipFigure& figure : chip.figures) {
      if (figure.provenance != Provenance::kFitted || is_calibration) continue;
      SCOPED_TRACE(chip.spec.id + " " + figure.name);
      if (figure.name == "attention_efficiency_ratio") {
        EXPECT_THAT(figure.source, HasSubstr("as shipped "));
      } else if (figure.name.starts_with("collective_") &&
                 figure.source.find("aiconfigurator") != std::string::npos) {
        EXPECT_THAT(figure.source, HasSubstr("a curve through every second size is "));
      } else if (figure.name == "memory_bound_fixed_seconds" ||
                 figure.name == "cache_bandwidth_ratio") {
        EXPECT_THAT(figure.source, HasSubstr("held-out error "));
      } else {
        continue;
      }
      ++count;
    }
  }
  EXPECT_GT(count, 60);
}

TEST(CatalogueTest, ChipsOfManyVendors) {
  std::set<std::string> vendors;
  for (const ChipEntry& chip : BuiltIn().chips()) {
    if (chip.spec.vendor != "CPU") vendors.insert(chip.spec.vendor);
  }
  EXPECT_THAT(vendors, testing::SizeIs(testing::Ge(12u)));
}

// Every alias of the catalogue resolves to its chip, or to a list of several chips.
TEST(CatalogueTest, EveryNameResolves) {
  for (const ChipEntry& chip : BuiltIn().chips()) {
    EXPECT_EQ(BuiltIn().Find(chip.spec.id).value(), &chip);
    for (const std::string_view name : NamesOf(chip)) {
      const auto found = BuiltIn().Find(name);
      if (found.ok()) {
        EXPECT_EQ(*found, &chip) << name;
      } else {
        EXPECT_EQ(Reason(found.status()), "AMBIGUOUS_CHIP") << name;
        EXPECT_THAT(std::string(found.status().message()), HasSubstr(chip.spec.id));
      }
    }
  }
}

TEST(CatalogueTest, A100HasItsPublishedFigures) {
  const ChipSpec& a100 = BuiltIn().Find("nvidia-a100-sxm4-80gb").value()->spec;
  EXPECT_EQ(a100.vendor, "NVIDIA");
  EXPECT_EQ(a100.memory_capacity.count, 85899345920);  // 80 x 2^30
  EXPECT_DOUBLE_EQ(a100.memory_bandwidth.rate, 2039e9);
  EXPECT_DOUBLE_EQ(a100.peak.at(Precision::kBf16).rate, 312e12);
  EXPECT_DOUBLE_EQ(a100.peak.at(Precision::kFp16).rate, 312e12);
  EXPECT_FALSE(a100.peak.contains(Precision::kFp8));
  EXPECT_DOUBLE_EQ(a100.vector_peak.rate, 19.5e12);
  EXPECT_DOUBLE_EQ(a100.power_limit_watts, 400);
  EXPECT_EQ(a100.core_count, 108);
  EXPECT_EQ(a100.cache.count, 41943040);  // 40 MiB
  EXPECT_EQ(a100.scale_up, (ScaleUpLink{.kind = LinkKind::kNvlink3,
                                        .bandwidth = {300e9},
                                        .domain_size = 8,
                                        .topology = NodeTopology::kSwitched}));
  EXPECT_EQ(a100.usual_node, (UsualNode{.device_count = 8,
                                        .nic_count = 8,
                                        .nic_gigabits_per_second = 200,
                                        .nic_kind = LinkKind::kInfiniband,
                                        .is_published = true}));
}

// The constants of docs/cost_model/gemm.md and attention.md for A100, fitted on m, n, k >= 512 and
// s >= 1024.
TEST(CatalogueTest, A100HasItsFittedConstants) {
  const ChipSpec& a100 = BuiltIn().Find("nvidia-a100-sxm4-80gb").value()->spec;
  EXPECT_DOUBLE_EQ(a100.gemm.compute_efficiency, 0.9499);
  EXPECT_DOUBLE_EQ(a100.gemm.memory_efficiency, 0.78);
  EXPECT_NEAR(a100.gemm.fixed.count(), 0.5121e-6, 1e-12);
  EXPECT_DOUBLE_EQ(a100.gemm.intensity_half, 3.7421);
  EXPECT_NEAR(a100.gemm.fill, 231.0544, 1e-3);
  EXPECT_NEAR(a100.gemm.quantisation, 0.990099, 1e-4);  // 100 / (1 + 100)
  EXPECT_NEAR(a100.gemm.norm_exponent, 6.6758, 1e-9);   // 1 + 5.6758
  EXPECT_NEAR(a100.gemm.split_k.count(), 0.3e-6, 1e-12);
  EXPECT_DOUBLE_EQ(a100.attention.efficiency, 0.573);
  EXPECT_DOUBLE_EQ(a100.attention.small_head_ratio, 0.87);
  EXPECT_DOUBLE_EQ(a100.attention.backward_time_ratio, 2.8);
  EXPECT_DOUBLE_EQ(a100.sustained_time_ratio, 1.14);
  EXPECT_DOUBLE_EQ(a100.memory_bound_efficiency, 0.65);
  ASSERT_EQ(a100.collectives.size(), 12u);  // 4 operations x 2, 4 and 8 ranks
  const CollectiveFit& all_reduce = a100.collectives[2];
  EXPECT_EQ(all_reduce.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(all_reduce.ranks, 8);
  EXPECT_EQ(all_reduce.alpha, Seconds(21.27e-6));
  EXPECT_EQ(all_reduce.bandwidth.rate, 231.3e9);
  EXPECT_EQ(all_reduce.half.count, 4298000);
  ASSERT_EQ(all_reduce.curve.size(), 21u);  // 512 bytes to 512 MiB
  EXPECT_EQ(all_reduce.curve.back().bytes.count, std::int64_t{512} << 20);
  EXPECT_EQ(a100.figures_provenance, Provenance::kPublished);
  EXPECT_EQ(a100.gemm_provenance, Provenance::kFitted);
  EXPECT_EQ(a100.attention_provenance, Provenance::kFitted);
  EXPECT_EQ(a100.collectives_provenance, Provenance::kFitted);
  EXPECT_EQ(a100.memory_bound_provenance, Provenance::kFitted);
}

// The A800 is an A100 with 8 instead of 12 links of 25 GB/s: 200 of 300 GB/s per direction.
TEST(CatalogueTest, A800TakesOverA100sConstantsAtItsLinkRate) {
  const ChipSpec& a100 = BuiltIn().Find("nvidia-a100-sxm4-80gb").value()->spec;
  const ChipSpec& a800 = BuiltIn().Find("A800").value()->spec;
  EXPECT_EQ(a800.gemm, a100.gemm);
  EXPECT_EQ(a800.gemm_provenance, Provenance::kTransferred);
  EXPECT_EQ(a800.collectives_provenance, Provenance::kTransferred);
  ASSERT_EQ(a800.collectives.size(), 12u);
  EXPECT_NEAR(a800.collectives[2].bandwidth.rate, 154.2e9, 1e6);  // 231.3 x 200 / 300
  EXPECT_EQ(a800.collectives[2].alpha, a100.collectives[2].alpha);
}

TEST(CatalogueTest, ChipsWithoutBf16SaySo) {
  for (const char* id : {"V100", "T4"}) {
    const ChipSpec& spec = BuiltIn().Find(id).value()->spec;
    EXPECT_FALSE(spec.peak.contains(Precision::kBf16)) << id;
    EXPECT_EQ(spec.figures_provenance, Provenance::kPublished) << id;
  }
}

TEST(CatalogueTest, LeftOutFiguresAreListedAsAssumed) {
  const ChipEntry& s4000 = *BuiltIn().Find("moore-threads-mtt-s4000").value();
  EXPECT_EQ(s4000.spec.core_count, 100);
  EXPECT_EQ(s4000.spec.usual_node.nic_count, 8);  // one NIC per device in a node of 8
  EXPECT_FALSE(s4000.spec.usual_node.is_published);
  EXPECT_EQ(s4000.spec.gemm_provenance, Provenance::kAssumed);
  EXPECT_THAT(s4000.figures, testing::Contains(ChipFigure{.name = "core_count",
                                                          .value = "100",
                                                          .source = "class default",
                                                          .provenance = Provenance::kAssumed,
                                                          .confidence = Confidence::kLow}));
}

std::string SiteChip(const std::string& id) {
  return R"({"id": ")" + id + R"(", "vendor": "Site", "name": "Board", "aliases": [],
    "confidence": "high", "notes": "", "collectives": [], "figures": {
    "memory_capacity_bytes": {"value": 34359738368, "source": "s", "provenance": "measured", "confidence": "high"},
    "memory_bandwidth_bytes_per_second": {"value": 1e12, "source": "s", "provenance": "measured", "confidence": "high"},
    "peak_fp16_flops_per_second": {"value": 160e12, "source": "s", "provenance": "measured", "confidence": "high"}}})";
}

TEST(CatalogueTest, SiteFileAddsAChip) {
  Catalogue catalogue = BuiltIn();
  ASSERT_TRUE(catalogue.AddFile("site-board", SiteChip("site-board")).ok());
  const ChipEntry& chip = *catalogue.Find("board").value();
  EXPECT_EQ(catalogue.chips().size(), BuiltIn().chips().size() + 1);
  EXPECT_FALSE(chip.is_built_in);
  EXPECT_EQ(chip.spec.memory_capacity, GiB(32));
  EXPECT_DOUBLE_EQ(chip.spec.vector_peak.rate, 10e12);  // 160 / 16
  EXPECT_EQ(chip.spec.figures_provenance, Provenance::kMeasured);
}

TEST(CatalogueTest, SiteFileReplacesABuiltInAndAnUnmodelledChip) {
  Catalogue catalogue = BuiltIn();
  ASSERT_TRUE(catalogue.AddFile("nvidia-t4", SiteChip("nvidia-t4")).ok());
  EXPECT_EQ(catalogue.chips().size(), BuiltIn().chips().size());
  EXPECT_EQ(catalogue.Find("nvidia-t4").value()->spec.vendor, "Site");
  ASSERT_TRUE(catalogue.AddFile("kunlunxin-r300", SiteChip("kunlunxin-r300")).ok());
  EXPECT_EQ(catalogue.unmodelled().size(), BuiltIn().unmodelled().size() - 1);
  EXPECT_TRUE(catalogue.Find("kunlunxin-r300").ok());
}

class FolderTest : public testing::Test {
 protected:
  FolderTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }
  void Write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  std::filesystem::path folder_;
};

TEST_F(FolderTest, LoadsJsonFilesOnly) {
  Write("site-a.json", SiteChip("site-a"));
  Write("site-b.json", SiteChip("site-b"));
  Write("notes.txt", "not a chip");
  const auto catalogue = Catalogue::Load(folder_.string());
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  EXPECT_EQ(catalogue->chips().size(), BuiltIn().chips().size() + 2);
}

TEST_F(FolderTest, NamesTheMistakesOfAllFiles) {
  Write("site-a.json", "{");
  Write("site-b.json", SiteChip("site-c"));
  const absl::Status status = Catalogue::Load(folder_.string()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("site-a.json = "));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("site-b.json: id = site-c; must be the name of the file"));
}

TEST_F(FolderTest, AFolderIsNoChipFile) {
  std::filesystem::create_directory(folder_ / "dir.json");
  const absl::Status status = Catalogue::Load(folder_.string()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("dir.json"));
}

TEST_F(FolderTest, SaysThatAFolderIsAbsent) {
  const absl::Status status = Catalogue::Load((folder_ / "absent").string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("absent"));
}

TEST(CatalogueTest, EmptyFolderNameMeansBuiltInOnly) {
  EXPECT_EQ(Catalogue::Load("").value().chips().size(), BuiltIn().chips().size());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
