//! The reader of a connection: it decodes replies and messages, and hands them to the pipeline.

use std::sync::atomic::Ordering;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, ReadHalf};

use super::{KEPT, Outputs, Pipeline};
use crate::config::network::Stream;
use crate::connection::net::link::resp::{NoProtocol, Scan, decode};
use crate::connection::trouble::{CLOSED, NO_PROTOCOL};

/// Size of the read buffer.
const READ: usize = 16 * 1024;

/// Number of consecutive full reads before the task yields to the runtime. After a read that does
/// not fill the buffer, the task usually has to wait anyway.
const READS: usize = 16;

/// Reads until the connection ends; returns the reason.
pub(super) async fn read(pipeline: &Pipeline, mut reader: ReadHalf<Box<dyn Stream>>, outputs: &Outputs) -> String {
    let mut buffer = BytesMut::with_capacity(READ);
    let (mut frames, mut answered, mut scan) = (Vec::new(), Vec::new(), None::<Scan>);
    let mut full_reads = 0;
    loop {
        if buffer.capacity() - buffer.len() < READ / 8 {
            buffer.reserve(READ);
        }
        let room = buffer.capacity() - buffer.len();
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return CLOSED.into(),
            Ok(bytes) => {
                crate::count::received(bytes);
                full_reads = if bytes < room { 0 } else { full_reads + 1 };
            }
            Err(error) => return format!("{error:?}"),
        }
        let is_whole = scan.as_mut().is_none_or(|scan| scan.is_whole(&buffer));
        let mut broken = None;
        if is_whole {
            while let Some(decoded) = decode(&mut buffer, pipeline.is_resp2()).transpose() {
                match decoded {
                    Ok(frame) => frames.push(frame),
                    Err(NoProtocol) => {
                        broken = Some(NO_PROTOCOL.to_owned());
                        break;
                    }
                }
            }
        }
        let (is_reading, now) = (!buffer.is_empty(), outputs.clock.now());
        pipeline.0.is_reading.store(is_reading, Ordering::Relaxed);
        if frames.is_empty() {
            outputs.silence.received_part(now);
        } else {
            outputs.silence.received(now);
        }
        if is_whole {
            scan = is_reading.then(Scan::new);
        }
        if let Some(why) = pipeline.received(&mut frames, &mut answered, &outputs.messages).err().or(broken) {
            return why;
        }
        if !is_reading && buffer.capacity() > KEPT {
            buffer = BytesMut::with_capacity(READ);
        }
        if full_reads == READS {
            full_reads = 0;
            tokio::task::yield_now().await;
        }
    }
}
