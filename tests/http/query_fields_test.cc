#include "server/http/query_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "meshwright/v1/service.pb.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(QueryFieldsTest, NamesSetFieldsAndDotsLeadIntoMessages) {
  v1::ListStudiesRequest request;
  EXPECT_THAT(FillFromQuery({{"page_size", "7"}, {"filter.state", "running"}}, request), IsEmpty());
  EXPECT_EQ(request.page_size(), 7);
  EXPECT_EQ(request.filter().state(), "running");
  EXPECT_FALSE(request.filter().has_outcome());

  v1::WatchStudyRequest watch;
  EXPECT_THAT(FillFromQuery({{"after_revision", "9007199254740993"}}, watch), IsEmpty());
  EXPECT_EQ(watch.after_revision(), 9007199254740993);
}

TEST(QueryFieldsTest, EntriesOfMapsAreNamedByTheirKeys) {
  v1::ListStudiesRequest request;
  EXPECT_THAT(FillFromQuery({{"filter.labels.team", "vision"}, {"filter.labels.a.b", ""}}, request),
              IsEmpty());
  EXPECT_EQ(request.filter().labels().size(), 2U);
  EXPECT_EQ(request.filter().labels().at("team"), "vision");
  EXPECT_EQ(request.filter().labels().at("a.b"), "");
  EXPECT_THAT(
      FillFromQuery({{"filter.labels", "x"}, {"filter.labels.k", "1"}, {"filter.labels.k", "2"}},
                    request),
      ElementsAre(Field(&FieldViolation::field, "filter.labels"),
                  FieldViolation{"filter.labels.k", "stated twice"}));
}

TEST(QueryFieldsTest, EveryMistakeIsNamed) {
  v1::ListStudiesRequest request;
  const auto violations = FillFromQuery({{"pagesize", "7"},
                                         {"page_size", "many"},
                                         {"filter", "running"},
                                         {"filter.state", "running"},
                                         {"filter.state", "failed"}},
                                        request);
  EXPECT_THAT(
      violations,
      ElementsAre(
          FieldViolation{"pagesize",
                         "unknown; known: page_size, page_token, filter.state, filter.outcome, "
                         "filter.text, filter.chip, filter.labels.KEY, filter.created_from, "
                         "filter.created_before, filter.creator"},
          FieldViolation{"page_size", "'many'; must be a whole number"},
          Field(&FieldViolation::description, HasSubstr("unknown; known: page_size")),
          FieldViolation{"filter.state", "stated twice"}));
}

TEST(QueryFieldsTest, NumbersMustFitTheirField) {
  v1::ListStudiesRequest request;
  for (const char* bad : {"2147483648", "", "1.5", " 1", "1 ", "0x10"}) {
    EXPECT_THAT(FillFromQuery({{"page_size", bad}}, request), testing::SizeIs(1)) << bad;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
