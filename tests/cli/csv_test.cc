#include "cli/reports/csv.h"

#include <gtest/gtest.h>

#include "meshwright/v1/problem.pb.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// RFC 4180: lines end with CRLF, and quotes are doubled.
TEST(CsvTableTest, QuotesWhatNeedsIt) {
  CsvTable table({"name", "note"});
  table.AddRow({"a,b", "say \"no\""});
  table.AddRow({"two\nlines", " plain"});
  EXPECT_EQ(table.text(), "name,note\r\n\"a,b\",\"say \"\"no\"\"\"\r\n\"two\nlines\", plain\r\n");
}

TEST(CsvCellsTest, AMessageIsARow) {
  v1::RecomputePlan plan;
  std::vector<std::string> titles;
  AddTitles(*plan.GetDescriptor(), "recompute.", titles);
  std::vector<std::string> cells;
  AddCells(plan, cells);
  EXPECT_EQ(titles,
            (std::vector<std::string>{"recompute.granularity", "recompute.layer_counts",
                                      "recompute.modules", "recompute.selective_layer_counts"}));
  EXPECT_EQ(cells, std::vector<std::string>(4));
  plan.set_granularity("full");
  plan.add_layer_counts(20);
  plan.add_layer_counts(19);
  plan.add_modules("mlp");
  plan.add_modules("norm");
  cells.clear();
  AddCells(plan, cells);
  EXPECT_EQ(cells, (std::vector<std::string>{"full", "20 19", "mlp; norm", ""}));
}

// Messages and maps are no cells.
TEST(CsvCellsTest, TitlesAndCellsAreOfTheSameFields) {
  for (const google::protobuf::Message* const message :
       {static_cast<const google::protobuf::Message*>(&v1::Plan::default_instance()),
        static_cast<const google::protobuf::Message*>(&v1::Model::default_instance())}) {
    std::vector<std::string> titles;
    AddTitles(*message->GetDescriptor(), "", titles);
    std::vector<std::string> cells;
    AddCells(*message, cells);
    EXPECT_EQ(titles.size(), cells.size());
    EXPECT_LT(titles.size(), static_cast<std::size_t>(message->GetDescriptor()->field_count()));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
