#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Returns, for example, "searching: 1,234,567 of 9,876,543 plans (12.5 %), best 21.3 s".
std::string ProgressText(const v1::Progress& progress);

// A line on stderr that is overwritten; silent if stderr is no terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const v1::Progress& progress);

 private:
  const bool is_shown_;
  std::string last_job_status_;
};

}  // namespace meshwright
