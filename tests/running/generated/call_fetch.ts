// Calls every operation by the client that openapi-generator's typescript-fetch generated, and prints a word of each
// answer; run as `node call_fetch.js URL KEY REQUESTS`.
import * as api from './client';

declare const process: { argv: string[]; stdout: { write(text: string): void } };
declare function require(name: 'fs'): { readFileSync(path: string, coding: string): string };

const [, , basePath, accessToken, path] = process.argv;
const requests = JSON.parse(require('fs').readFileSync(path, 'utf8'));
const configuration = new api.Configuration({ basePath, accessToken });
const operations = new api.OperationsApi(configuration);
const evaluation = new api.EvaluationApi(configuration);
const retrieval = new api.RetrievalApi(configuration);
const jobs = new api.JobsApi(configuration);

async function statusOf(call: Promise<unknown>): Promise<number> {
  try {
    await call;
    return 200;
  } catch (error) {
    return (error as api.ResponseError).response.status;
  }
}

async function sayAll(): Promise<Record<string, unknown>> {
  const jobId = (await jobs.submitJob({ jobRequest: api.JobRequestFromJSON(requests.job) })).id;
  let job = await jobs.getJob({ jobId });
  while (['queued', 'running'].includes(job.status)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    job = await jobs.getJob({ jobId });
  }
  const batch = await evaluation.evaluateBatch({ batchRequest: api.BatchRequestFromJSON(requests.batch) });
  const evaluated = await retrieval.evaluateRetrieval({
    retrievalEvaluationRequest: api.RetrievalEvaluationRequestFromJSON(requests.retrieval),
  });
  const compared = await retrieval.compareRetrieval({
    comparisonRequest: api.ComparisonRequestFromJSON(requests.retrieval),
  });
  const fused = await retrieval.fuseRetrieval({ fusionRequest: api.FusionRequestFromJSON(requests.fusion) });
  return {
    health: (await operations.health()).status,
    readiness: (await operations.readiness()).status,
    version: (await operations.version()).name,
    metrics: (await operations.metrics()).includes('plumbline_'),
    evaluate: (await evaluation.evaluate({ sampleOrConversation: api.SampleOrConversationFromJSON(requests.sample) }))
      .tier,
    evaluate_batch: batch.results.map((each) => 'result' in each && each.result !== undefined),
    evaluate_retrieval: evaluated.runs[0].name,
    compare_retrieval: compared.comparisons[0].ci95?.length,
    fuse_retrieval: Object.keys(fused.results['q1'])[0],
    submit_job: jobId.startsWith('job_'),
    get_job: job.status,
    list_jobs: (await jobs.listJobs()).jobs.some((each) => each.id === jobId),
    get_job_results: JSON.parse(await jobs.getJobResults({ jobId })).custom_id,
    get_job_report: (await jobs.getJobReport({ jobId })).includes('<html'),
    pause_job: await statusOf(jobs.pauseJob({ jobId })),
    resume_job: await statusOf(jobs.resumeJob({ jobId })),
    cancel_job: await statusOf(jobs.cancelJob({ jobId })),
    retry_job: await statusOf(jobs.retryJob({ jobId, retryRequest: api.RetryRequestFromJSON(requests.retry) })),
    delete_job: (await jobs.deleteJob({ jobId })) ?? null,
  };
}

sayAll().then((said) => process.stdout.write(JSON.stringify(said)));
