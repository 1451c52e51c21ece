#include "estimator/frameworks/framework_library.h"

#include <gmock/gmock.h>

#include <ostream>
#include <string>

#include "search_space/spec/choices.h"
#include "search_space/spec/framework_profile.h"
#include "vendor_models/catalogue.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const FrameworkLibrary& BuiltIn() {
  static const FrameworkLibrary* const library =
      new FrameworkLibrary(FrameworkLibrary::LoadBuiltIn().value());
  return *library;
}

TEST(FrameworkLibrary, AllFilesLoad) {
  ASSERT_TRUE(FrameworkLibrary::LoadBuiltIn().ok());
  // The names of the contract, `workload.framework.name`.
  for (const char* name :
       {"megatron-core", "megatron-lm", "megatron-deepspeed", "deepspeed", "pytorch-fsdp",
        "torchtitan", "nanotron", "internevo", "mindspeed", "paddle", "maxtext", "jax",
        "aleph-alpha-scaling", "flagscale", "train-step", "generic"}) {
    EXPECT_THAT(BuiltIn().Names(), Contains(name));
    const FoundFramework found = BuiltIn().Find(name, "");
    EXPECT_THAT(found.warnings, IsEmpty()) << name;
    EXPECT_EQ(found.entry->profile.name, name);
  }
}

TEST(FrameworkLibrary, EveryFactHasASource) {
  for (const FrameworkEntry& entry : BuiltIn().entries()) {
    for (const FrameworkFact& fact : entry.facts) {
      EXPECT_THAT(fact.source, Not(IsEmpty())) << entry.profile.name << " " << fact.key;
    }
  }
}

// Figures that were found on runs of a framework do not pass to a profile that extends it.
TEST(FrameworkLibrary, RunsAreNotInherited) {
  FrameworkLibrary library = FrameworkLibrary::LoadBuiltIn().value();
  const std::string fact = R"({"value": %, "source": "runs", "confidence": "high"})";
  const auto with = [&](const std::string& value) {
    return std::string(fact).replace(fact.find('%'), 1, value);
  };
  ASSERT_TRUE(
      library
          .AddFile("base.json",
                   R"({"name": "base", "is_default": true, "provenance": "fitted", "facts": {
                               "low_time_ratio": )" +
                       with("0.9") + R"(, "checked_chips": )" + with("\"x\"") +
                       R"(, "checked_device_count": )" + with("8") + R"(, "grouped_gemm": )" +
                       with("false") + "}}")
          .ok());
  ASSERT_TRUE(library
                  .AddFile("next.json", R"({"name": "next", "is_default": true, "extends": "base",
                                            "provenance": "fitted", "facts": {}})")
                  .ok());
  const FrameworkProfile& next = library.Find("next", "").entry->profile;
  EXPECT_FALSE(next.grouped_gemm);
  EXPECT_EQ(next.low_time_ratio, FrameworkProfile().low_time_ratio);
  EXPECT_THAT(next.checked_chips, IsEmpty());
  EXPECT_EQ(next.checked_device_count, 0);
}

TEST(FrameworkLibrary, CheckedChipsAreOfTheCatalogue) {
  const Catalogue chips = Catalogue::LoadBuiltIn().value();
  for (const FrameworkEntry& entry : BuiltIn().entries()) {
    for (const std::string& chip : entry.profile.checked_chips) {
      const auto found = chips.Find(chip);
      ASSERT_TRUE(found.ok()) << entry.profile.name << " " << found.status();
      EXPECT_EQ((*found)->spec.id, chip);
    }
    EXPECT_EQ(entry.profile.checked_chips.empty(), entry.profile.checked_device_count == 0)
        << entry.profile.name;
  }
}

TEST(FrameworkLibrary, OneDefaultForEachName) {
  for (const std::string& name : BuiltIn().Names()) {
    int defaults = 0;
    for (const FrameworkEntry& entry : BuiltIn().entries()) {
      defaults += entry.profile.name == name && entry.is_default ? 1 : 0;
    }
    EXPECT_EQ(defaults, 1) << name;
  }
}

TEST(FrameworkLibrary, UnknownNameIsNotFound) {
  EXPECT_EQ(BuiltIn().Find("my-trainer", "1.0").entry, nullptr);
  EXPECT_EQ(BuiltIn().Find("", "").entry, nullptr);
}

TEST(FrameworkLibrary, ClosestNamesFirst) {
  const std::vector<std::string> names = BuiltIn().NamesLike("Megatron-LM");
  EXPECT_EQ(names.front(), "megatron-lm");
  EXPECT_EQ(names.size(), BuiltIn().Names().size());
  EXPECT_EQ(BuiltIn().NamesLike("torchtian").front(), "torchtitan");
  EXPECT_EQ(BuiltIn().NamesLike("FSDP").front(), "pytorch-fsdp");
  EXPECT_EQ(BuiltIn().NamesLike("paddlenlp").front(), "paddle");
  EXPECT_EQ(BuiltIn().NamesLike("nemo").front(), "megatron-core");
}

TEST(FrameworkLibrary, UnknownVersionIsTheDefault) {
  const FoundFramework usual = BuiltIn().Find("megatron-lm", "");
  const FoundFramework found = BuiltIn().Find("megatron-lm", "1999");
  EXPECT_EQ(found.entry, usual.entry);
  EXPECT_THAT(found.warnings, ElementsAre(AllOf(HasSubstr("1999"), HasSubstr("megatron-lm"))));
}

TEST(FrameworkLibrary, VersionIsAPrefix) {
  const FoundFramework found = BuiltIn().Find("megatron-lm", "2022.05");
  EXPECT_THAT(found.warnings, IsEmpty());
  EXPECT_THAT(found.entry->versions, Contains("2022"));
  EXPECT_NE(found.entry, BuiltIn().Find("megatron-lm", "").entry);
}

TEST(FrameworkLibrary, ExtendsTakesTheRest) {
  FrameworkLibrary library;
  ASSERT_TRUE(library
                  .AddFile("base", R"({"name": "base", "is_default": true, "provenance": "fitted",
    "facts": {"allocator_efficiency": {"value": 0.9, "source": "s", "confidence": "high"},
              "norm_kernel": {"value": "unfused", "source": "s", "confidence": "high"}}})")
                  .ok());
  ASSERT_TRUE(library
                  .AddFile("own", R"({"name": "own", "is_default": true, "extends": "base",
    "versions": ["2"], "provenance": "published", "facts": {
      "norm_kernel": {"value": "fused", "source": "s", "confidence": "high"},
      "overlap.gradient_reduce": {"value": true, "source": "s", "confidence": "low"},
      "selective_modules": {"value": "core_attn mlp", "source": "s", "confidence": "low"}}})")
                  .ok());
  const FrameworkProfile& own = library.Find("own", "").entry->profile;
  EXPECT_EQ(own.allocator_efficiency, 0.9);
  EXPECT_EQ(own.norm_kernel, KernelFusion::kFused);
  EXPECT_TRUE(own.overlap.gradient_reduce);
  EXPECT_THAT(own.selective_modules, ElementsAre("core_attn", "mlp"));
  EXPECT_EQ(own.provenance, Provenance::kPublished);
  EXPECT_EQ(own.version, "2");
}

struct BadCase {
  const char* name;
  const char* text;
  std::vector<std::string> named;  // every one of these is in the error
};

void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name; }

const BadCase kBadCases[] = {
    {"NoJson", "{", {"bad.json", "not a JSON object"}},
    {"NoName", R"({"provenance": "fitted", "facts": {}})", {"bad.json", "name"}},
    {"NoFacts", R"({"name": "x", "provenance": "fitted"})", {"facts"}},
    {"UnknownProvenance",
     R"({"name": "x", "provenance": "guess", "facts": {}})",
     {"provenance", "measured"}},
    {"UnknownBase",
     R"({"name": "x", "provenance": "fitted", "extends": "y", "facts": {}})",
     {"extends", "y"}},
    {"WrongTypes",
     R"({"name": "x", "provenance": 3, "is_default": "yes", "versions": "all",
                       "facts": {}})",
     {"provenance", "is_default", "versions"}},
    // Five bad facts, five named.
    {"EveryBadFact",
     R"({"name": "x", "provenance": "fitted", "facts": {
      "allocator_efficency": {"value": 1, "source": "s", "confidence": "high"},
      "norm_kernel": {"value": "eager", "source": "s", "confidence": "high"},
      "host_per_launch_seconds": {"value": -1, "source": "s", "confidence": "high"},
      "overlap.pipeline_p2p": {"value": "maybe", "source": "s", "confidence": "high"},
      "selective_modules": {"value": "core_attn router", "source": "s", "confidence": "high"},
      "layer_split": {"value": "even", "confidence": "high"},
      "rotary_is_fused": {"value": true, "source": "s", "confidence": "sure"}}})",
     {"allocator_efficency", "norm_kernel = eager", "unfused", "host_per_launch_seconds",
      "overlap.pipeline_p2p", "selective_modules", "layer_split", "rotary_is_fused"}},
};

class BadFrameworkFileTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadFrameworkFileTest, NamesEverythingBad) {
  FrameworkLibrary library;
  const absl::Status status = library.AddFile("bad.json", GetParam().text);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  for (const std::string& word : GetParam().named) EXPECT_THAT(message, HasSubstr(word));
  EXPECT_THAT(library.entries(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, BadFrameworkFileTest, testing::ValuesIn(kBadCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
