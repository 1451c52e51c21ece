#include "vendor_models/chip_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A file without mistakes; each case replaces the text `from`.
constexpr char kGood[] = R"({
  "id": "site-board", "vendor": "Site", "name": "Board", "aliases": ["B1"],
  "confidence": "medium", "notes": "",
  "figures": {
    "memory_capacity_bytes": {"value": 34359738368, "source": "data sheet", "provenance": "published", "confidence": "high"},
    "memory_bandwidth_bytes_per_second": {"value": 1e12, "source": "copy", "provenance": "measured", "confidence": "high"},
    "peak_bf16_flops_per_second": {"value": 160e12, "source": "data sheet", "provenance": "published", "confidence": "high"},
    "core_count": {"value": 80, "source": "data sheet", "provenance": "published", "confidence": "high"},
    "scale_up_kind": {"value": "pcie5", "source": "data sheet", "provenance": "published", "confidence": "high"}
  },
  "collectives": [
    {"kind": "all_reduce", "rank_count": 2, "alpha_seconds": 1e-5, "bandwidth_bytes_per_second": 2e10, "half_bytes": 1e6, "source": "sweep", "provenance": "measured", "confidence": "high"}
  ]
})";

struct Edit {
  std::string from;
  std::string to;
};

std::string Edited(const std::vector<Edit>& edits) {
  std::string text = kGood;
  for (const Edit& edit : edits) {
    const std::size_t at = text.find(edit.from);
    EXPECT_NE(at, std::string::npos) << edit.from;
    text.replace(at, edit.from.size(), edit.to);
  }
  return text;
}

TEST(ChipFileTest, ReadsAGoodFile) {
  const auto entry = ParseChipFile("site-board", kGood);
  ASSERT_TRUE(entry.ok()) << entry.status();
  const ChipSpec& spec = entry->spec;
  EXPECT_EQ(spec.aliases, std::vector<std::string>{"B1"});
  EXPECT_EQ(spec.core_count, 80);
  EXPECT_EQ(spec.scale_up.kind, LinkKind::kPcie5);
  EXPECT_EQ(spec.scale_up.domain_size, 8);  // the default node
  ASSERT_EQ(spec.collectives.size(), 1u);
  EXPECT_EQ(spec.collectives[0].half.count, 1000000);
  EXPECT_EQ(spec.collectives_provenance, Provenance::kMeasured);
  // The provenance of memory, published, is weaker than that of the bandwidth, measured.
  EXPECT_EQ(spec.figures_provenance, Provenance::kPublished);
}

constexpr char kReachedPeak[] =
    R"("measured_peak_bf16_flops_per_second": {"value": 1.1e14, "source": "sweep", "provenance": "measured", "confidence": "high"},
    "core_count")";

// A measured peak is listed beside the nominal one and changes nothing that estimates use.
TEST(ChipFileTest, AMeasuredPeakIsShownAndNotUsed) {
  const auto with = ParseChipFile("site-board", Edited({{R"("core_count")", kReachedPeak}}));
  const auto without = ParseChipFile("site-board", kGood);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->spec, without->spec);
  EXPECT_THAT(with->figures,
              testing::Contains(ChipFigure{.name = "measured_peak_bf16_flops_per_second",
                                           .value = "110000000000000",
                                           .source = "sweep",
                                           .provenance = Provenance::kMeasured,
                                           .confidence = Confidence::kHigh}));
}

// If it is omitted, the copy rate follows that of the kernels: 0.57 / 0.76, at most 0.85.
TEST(ChipFileTest, CopyRateFollowsTheKernels) {
  const auto stream = [](const std::string& kernels) {
    const std::string figure = R"("memory_bound_efficiency_ratio": {"value": )" + kernels +
                               R"(, "source": "x", "provenance": "measured", "confidence": "low"},
    "core_count")";
    const auto entry = ParseChipFile("site-board", Edited({{R"("core_count")", figure}}));
    EXPECT_TRUE(entry.ok()) << entry.status();
    return entry->spec.stream_efficiency;
  };
  EXPECT_NEAR(stream("0.57"), 0.75, 1e-12);
  EXPECT_EQ(stream("0.8"), 0.85);
}

constexpr char kTable[] = R"("gemm_residuals": [
    {"precision": "fp8", "pass": "weight_gradient", "is_grouped": true,
     "shapes": [[8, 1024, 2048, 4096, 1.25]],
     "source": "sweep", "provenance": "measured", "confidence": "high"}],
  "collectives")";

TEST(ChipFileTest, ReadsResidualTables) {
  const auto entry = ParseChipFile("site-board", Edited({{R"("collectives")", kTable}}));
  ASSERT_TRUE(entry.ok()) << entry.status();
  ASSERT_EQ(entry->spec.gemm_residuals.size(), 1u);
  const GemmResidualTable& table = entry->spec.gemm_residuals[0];
  EXPECT_EQ(table.precision, Precision::kFp8);
  EXPECT_EQ(table.pass, GemmPass::kWeightGradient);
  EXPECT_TRUE(table.is_grouped);
  ASSERT_EQ(table.shapes.size(), 1u);
  EXPECT_NEAR(std::exp(table.shapes[0].log_count), 8, 1e-9);
  EXPECT_NEAR(std::exp(table.shapes[0].log_k), 4096, 1e-9);
  EXPECT_NEAR(std::exp(table.shapes[0].log_time_ratio), 1.25, 1e-9);
  const auto figure = std::find_if(entry->figures.begin(), entry->figures.end(), [](const auto& f) {
    return f.name == "gemm_residuals_fp8_weight_gradient_grouped";
  });
  ASSERT_NE(figure, entry->figures.end());
  EXPECT_EQ(figure->value, "1 shapes");
  // The table is measured but the constants of the form are defaults; the weaker provenance counts.
  EXPECT_EQ(entry->spec.gemm_provenance, Provenance::kAssumed);
}

constexpr char kTorus[] =
    R"("scale_up_topology": {"value": "torus", "source": "data sheet", "provenance": "published", "confidence": "high"},)";
constexpr char kTwoAxes[] =
    R"("torus_axis_count": {"value": 2, "source": "data sheet", "provenance": "published", "confidence": "high"},)";

TEST(ChipFileTest, OnlyATorusHasAxes) {
  EXPECT_EQ(ParseChipFile("site-board", kGood)->spec.torus_axis_count, std::nullopt);
  const std::string at = R"("scale_up_kind")";
  const auto assumed = ParseChipFile("site-board", Edited({{at, kTorus + at}}));
  EXPECT_EQ(assumed->spec.torus_axis_count, 3);
  const auto figure = std::ranges::find(assumed->figures, "torus_axis_count", &ChipFigure::name);
  ASSERT_NE(figure, assumed->figures.end());
  EXPECT_EQ(figure->provenance, Provenance::kAssumed);
  const auto stated =
      ParseChipFile("site-board", Edited({{at, std::string(kTorus) + kTwoAxes + at}}));
  EXPECT_EQ(stated->spec.torus_axis_count, 2);
}

struct BadFile {
  const char* name;
  std::vector<Edit> edits;
  std::vector<std::string> mistakes;  // a part of the text of every mistake in the file
};

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, NamesEveryMistakeWithFileAndKey) {
  const absl::Status status = ParseChipFile("site-board", Edited(GetParam().edits)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& mistake : GetParam().mistakes) {
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(mistake));
  }
  EXPECT_EQ(FieldViolations(status).size(), GetParam().mistakes.size()) << status;
}

const BadFile kBadFiles[] = {
    {"ResidualsTwice",
     {{R"("collectives")",
       R"("gemm_residuals": [
         {"precision": "bf16", "pass": "any", "is_grouped": false, "shapes": [[1, 8, 8, 8, 1]],
          "source": "x", "provenance": "measured", "confidence": "low"},
         {"precision": "bf16", "pass": "any", "is_grouped": false, "shapes": [[2, 8, 8, 8, 1]],
          "source": "x", "provenance": "measured", "confidence": "low"}], "collectives")"}},
     {"gemm_residuals[1].pass = a second table of this precision and pass",
      "gemm_residuals[1].shapes = counts above 1; must be 1 where is_grouped is false"}},
    {"ResidualsOfNothing",
     {{R"("collectives")", R"("gemm_residuals": {}, "collectives")"}},
     {"gemm_residuals = {}; must be a list"}},
    {"ResidualTable",
     {{R"("collectives")", kTable},
      {R"("fp8")", R"("fp16")"},
      {R"("weight_gradient")", R"("sideways")"},
      {R"("is_grouped": true)", R"("is_grouped": 1)"},
      {"[[8, 1024, 2048, 4096, 1.25]]",
       "[[8, 1024, 2048, 4096], [0, 1, 1, 1, 1], [1, 1, 1, 1, 99]]"}},
     {"gemm_residuals[0].precision = fp16; must be bf16",
      "gemm_residuals[0].pass = sideways; must be one of any",
      "gemm_residuals[0].is_grouped = 1; must be true or false",
      "gemm_residuals[0].shapes[0] = [8,1024,2048,4096]; must be [count, m, n, k, time_ratio]",
      "gemm_residuals[0].shapes[1] = [0,1,1,1,1]", "gemm_residuals[0].shapes[2] = [1,1,1,1,99]"}},
    {"NotJson", {{"{", "{{"}}, {"site-board.json = "}},
    {"ControlCharacters",
     {{"\"notes\": \"\"", R"("notes": "a\u0000b")"}, {"data sheet", R"(\u001b[2J)"}},
     {R"(site-board.json: figures.memory_capacity_bytes.source = "\u001b[2J"; must have no)",
      R"(site-board.json: notes = "a\u0000b"; must have no control characters, but byte 2)"}},
    {"NotAnObject", {{kGood, "[]"}}, {"site-board.json = []; must be a JSON object"}},
    {"FiveMistakes",
     {{R"("core_count")", R"("sm_count")"},                            // unknown key
      {R"("value": 34359738368)", R"("value": 32)"},                   // GiB instead of bytes
      {R"("value": 1e12)", R"("value": "1 TB/s")"},                    // wrong type
      {R"("source": "data sheet", "provenance")", R"("provenance")"},  // missing source
      {R"("pcie5")", R"("pcie6")"}},                                   // not an allowed word
     {"site-board.json: figures.sm_count = unknown key; must be one of memory_capacity_bytes",
      "site-board.json: figures.memory_capacity_bytes.value = 32; must be from 1e+09 to 1e+14",
      "site-board.json: figures.memory_bandwidth_bytes_per_second.value = \"1 TB/s\"; must be a "
      "number",
      "site-board.json: figures.memory_capacity_bytes.source = missing",
      "site-board.json: figures.scale_up_kind.value = pcie6; must be one of nvlink2"}},
    {"ReportsMoreMemoryThanItHas",
     {{R"("memory_bandwidth_bytes_per_second":)",
       R"("reported_memory_capacity_bytes": {"value": 34359738369, "source": "log", "provenance": "measured", "confidence": "high"},
    "memory_bandwidth_bytes_per_second":)"}},
     {"figures.reported_memory_capacity_bytes = 34359738369; must be <= memory_capacity_bytes = "
      "34359738368"}},
    {"MissingFigures",
     {{"memory_bandwidth_bytes_per_second", "peak_fp8_flops_per_second"},
      {"peak_bf16_flops_per_second", "peak_fp32_flops_per_second"}},
     {"figures.memory_bandwidth_bytes_per_second = missing",
      "figures.peak_bf16_flops_per_second = missing, and so is peak_fp16_flops_per_second"}},
    {"WrongHead",
     {{R"("id": "site-board")", R"("id": "board")"},
      {R"("vendor": "Site")", R"("vendor": "")"},
      {R"(["B1"])", R"(["B1", 2])"},
      {R"("medium")", R"("certain")"},
      {R"("notes": "")", R"("remarks": "")"}},
     {"site-board.json: id = board; must be the name of the file",
      "site-board.json: vendor = \"\"; must be a text that is not empty",
      "site-board.json: aliases = 2; must be a list of texts",
      "site-board.json: confidence = \"certain\"; must be one of high, medium, low",
      "site-board.json: remarks = unknown key", "site-board.json: notes = missing"}},
    {"WrongFigureShape",
     {{R"({"value": 80, "source": "data sheet", "provenance": "published", "confidence": "high"})",
       "80"},
      {R"("value": 160e12, "source")", R"("value": 160e12, "unit": "FLOP/s", "source")"}},
     {"figures.core_count = 80; must be an object of confidence, provenance, source, value",
      "figures.peak_bf16_flops_per_second.unit = unknown key"}},
    {"AMeasuredPeakThatIsNot",
     {{R"("core_count")", kReachedPeak},
      {R"(sweep", "provenance": "measured")", R"(sheet", "provenance": "published")"}},
     {"figures.measured_peak_bf16_flops_per_second.provenance = published; must be measured"}},
    {"FractionOfACore", {{"80", "80.5"}}, {"figures.core_count.value = 80.5; must be a whole"}},
    {"AxesOfASwitch",
     {{R"("scale_up_kind")", std::string(kTwoAxes) + R"("scale_up_kind")"}},
     {"figures.torus_axis_count = given, but scale_up_topology is switched"}},
    {"TooManyAxes",
     {{R"("scale_up_kind")",
       std::string(kTorus) +
           R"("torus_axis_count": {"value": 7, "source": "data sheet", "provenance": "published", "confidence": "high"}, "scale_up_kind")"}},
     {"figures.torus_axis_count.value = 7; must be"}},
    {"WrongProvenance",
     {{R"("measured")", R"("guessed")"}},
     {"figures.memory_bandwidth_bytes_per_second.provenance = \"guessed\"; must be one of "
      "measured, transferred, fitted, published, assumed"}},
    {"WrongCollective",
     {{R"("all_reduce")", R"("broadcast")"},
      {R"("rank_count": 2)", R"("rank_count": 1)"},
      {R"("half_bytes": 1e6, )", ""}},
     {"collectives[0].kind = broadcast; must be one of all_reduce",
      "collectives[0].rank_count = 1; must be from 2", "collectives[0].half_bytes = missing"}},
    {"ListsOfTheWrongType",
     {{kGood, R"({"id": "site-board", "vendor": "S", "name": "B", "aliases": "B1",
                  "confidence": "low", "notes": "", "figures": 3, "collectives": [4]})"}},
     {"aliases = \"B1\"; must be a list of texts", "figures = 3; must be an object",
      "collectives[0] = must be an object"}},
    {"ReportedNames",
     {{R"(["B1"],)",
       R"(["B1"], "reported_names": [{"name": "Site Board", "tool": "smi"}, "B2"],)"}},
     {"site-board.json: reported_names[0].tool = unknown key",
      "site-board.json: reported_names[0].source = missing",
      "site-board.json: reported_names[1] = \"B2\"; must be an object of name, source"}},
};

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, testing::ValuesIn(kBadFiles),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
