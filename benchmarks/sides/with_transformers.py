"""The Hugging Face Trainer, with a model that gives its loss, and neither checkpoints nor reports.

python -m benchmarks.sides.with_transformers JOB      (also under torchrun)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils.data import default_collate
from transformers import Trainer, TrainingArguments

from benchmarks.job import LOG_EVERY, Job, job_of_this_process, place
from benchmarks.meter import Meter


class WithLoss(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.model = job.workload.make_model()
        self.loss = job.workload.data.loss

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        outputs = self.model(inputs)
        return {"loss": self.loss(outputs, labels), "logits": outputs}


def collate(samples: list[Any]) -> dict[str, Tensor]:
    inputs, targets = default_collate(samples)
    return {"inputs": inputs, "labels": targets}


def train(job: Job) -> None:
    workload = job.workload
    model = WithLoss(job)
    optimizer = workload.make_optimizer(model)
    meter = Meter(optimizer, job)
    arguments = TrainingArguments(
        output_dir=job.folder,
        use_cpu=True,
        ddp_backend="gloo" if place()[1] > 1 else None,
        max_steps=job.steps,
        per_device_train_batch_size=workload.microbatch,
        gradient_accumulation_steps=workload.accumulation,
        dataloader_num_workers=workload.workers,
        dataloader_persistent_workers=workload.workers > 0,
        dataloader_drop_last=True,
        train_sampling_strategy="random" if job.shuffle else "sequential",
        lr_scheduler_type="constant",
        max_grad_norm=0.0,  # the others do not clip
        logging_steps=LOG_EVERY,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model,
        arguments,
        data_collator=collate,
        train_dataset=workload.data.make(),
        optimizers=(optimizer, None),
    )
    trainer.train()
    if place()[0] == 0:
        meter.write()


if __name__ == "__main__":
    train(job_of_this_process())
