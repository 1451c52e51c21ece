#pragma once

#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// "searching: 1,234,567 of 9,876,543 plans (12.5 %), best 21.3 s"
std::string ProgressText(const v1::Progress& progress);

// One line on stderr that is written over; silent when stderr is no terminal.
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
