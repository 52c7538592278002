// The words of the matrix summary, one row a language. Private to this module.
#pragma once

#include "orchestrator/report/matrix_summary.h"

namespace sweep::report {

struct MatrixTexts {
  const char* title;
  const char* totals;       // entries, jobs, points
  const char* in_progress;  // jobs that are not dispatched
  const char* per_runner;   // headings
  const char* changes;
  const char* research;
  const char* acceptance;
  const char* open;
  const char* warnings;
  const char* job_note;       // what a job and the bound are
  const char* change_totals;  // added, removed, changed points
  const char* no_change;
  const char* more;    // rows that were cut
  const char* runner;  // column titles
  const char* gpu;
  const char* jobs;
  const char* points;
  const char* evaluated;
  const char* waiting;
  const char* gpus_a_job;
  const char* gpu_hours;
  const char* entry;
  const char* entries;
  const char* topologies;
  const char* recipe;
  const char* added;
  const char* removed;
  const char* changed;
  const char* fields;
  const char* authorization;
  const char* deviations;
  const char* method;
  const char* drafts;
  const char* source;
  const char* length;
  const char* what;
  const char* unknown;     // values
  const char* unknown_of;  // jobs without a limit, hours of the others
  const char* not_stated;
  const char* is_in_progress;
  const char* unresolved;  // number of recipes, the first one
  const char* nothing;
};

const MatrixTexts& texts_of(Language language);

}  // namespace sweep::report
